"""`course mine`: print the learner's model as one file."""

from __future__ import annotations

from course.command_error import CommandError
from ehr_course.exercises.mine import whole_model

EXAMPLE = '''\
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from ehr_course import CodeTokenizer, Corruption, RecordDataset, make_cohort


class PatientModel(nn.Module):
    def __init__(self, n_tokens, d_model=64):
        super().__init__()
        self.bart = TinyBart(n_tokens, d_model, 4, 2 * d_model, 1, 256)
        self.encoder_prompt = MyPrompt([2], d_model)
        self.decoder_prompt = MyPrompt([2], d_model)
        for weight in self.parameters():
            if weight.ndim > 1:
                nn.init.normal_(weight, std=0.08)

    def forward(self, input_ids, attention_mask, decoder_input_ids, x_num, x_cat):
        read = self.encoder_prompt(x_num, x_cat)
        written = self.decoder_prompt(x_num, x_cat)
        return self.bart(input_ids, attention_mask, decoder_input_ids, read, written)


def loss_sum(model, batch):
    rows = {name: batch[name] for name in batch if name != "labels"}
    return cross_entropy(model(**rows).mT, batch["labels"], reduction="sum")


def example(n_patients=1_000, steps=80):
    """Train a small model on patients of the course's practice hospital."""
    records = make_cohort(n_patients, seed=0)
    tokenizer = CodeTokenizer.from_records(records)
    noise = Corruption(p_empty=0.5)  # half of the records are hidden from the encoder
    data = RecordDataset(records, tokenizer, corruption=noise, seed=0)
    batches = [[data.batch(some.tolist())] for some in torch.randperm(len(data)).split(16)]
    model = PatientModel(len(tokenizer))
    losses = train(model, batches, steps, loss_sum, lr=4e-3)
    print(f"loss: {losses[0]:.2f} at first, {sum(losses[-10:]) / 10:.2f} after {steps} steps")


if __name__ == "__main__":
    example()
'''


def main(arguments: list[str]) -> int:
    """Print all parts of the model, the learner's own where they are solved, and return 0.

    Args:
        arguments: what stands after `course mine` on the command line: nothing.

    Raises:
        CommandError: if there are arguments.
    """
    if arguments:
        remedy = "Leave them out: python3 -m course mine > my_model.py"
        raise CommandError("course mine takes no arguments.", remedy, exit_code=2)
    print(whole_model(EXAMPLE), end="")
    return 0
