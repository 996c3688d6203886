"""From token ids to tensors: corruption, batches, and the order in which they come.

All randomness comes from (seed, epoch, number of the batch), so a batch is the same in any worker
process and after any restart.
"""
