"""From token ids to tensors: corruption, batches, and the order in which they come.

``datasets.RecordDataset`` encodes patients once and makes a batch of any of them:
``corruption.Corruption`` damages the copy that the encoder reads, ``collate.collate`` pads it and
keeps the clean record as the target. ``sampler.LengthBatchSampler`` says which patients make up
which batch, and ``sampler.data_loader`` hands the batches to as many worker processes as you like.
All randomness comes from (seed, epoch, number of the batch), so a batch is the same in any worker
and after any restart.
"""
