"""Train with Transformers' Trainer: ``LAUNCHER PRECISION FOLDER [fsdp]``, for test_trainer.py."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

if sys.argv[1] == "one":
    os.environ["CUDA_VISIBLE_DEVICES"] = "0"

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

TOTAL_BATCH = 8


class Numbers(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Sequences that count, which a small model learns at once."""

    def __len__(self) -> int:
        """How many there are."""
        return 96

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """The sequence from ``index`` on."""
        if index >= len(self):
            raise IndexError(index)
        tokens = (torch.arange(16) + index) % 32
        return {"input_ids": tokens, "labels": tokens}


def main(launcher: str, precision: str, folder: Path, *options: str) -> None:
    """Train, evaluate, go on from the checkpoint, and write a report."""
    torch.manual_seed(0)
    shares = 1 if launcher == "one" else 2
    settings: dict[str, Any] = {"fp16": precision == "fp16", "bf16": precision == "bf16"}
    if "fsdp" in options:
        settings |= {"fsdp": "full_shard", "save_strategy": "no"}
    arguments = TrainingArguments(
        output_dir=str(folder / "out"), per_device_train_batch_size=TOTAL_BATCH // shares,
        per_device_eval_batch_size=TOTAL_BATCH // shares, num_train_epochs=2, learning_rate=3e-3,
        logging_steps=1, report_to=[], seed=1, save_steps=24, **settings,
    )  # fmt: skip
    trainer = _trainer(arguments)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    report = {
        "losses": losses,
        "steps": trainer.state.global_step,
        "gpus": arguments.n_gpu,
        "processes": arguments.world_size,
        "eval_loss": trainer.evaluate()["eval_loss"],
    }
    if "fsdp" not in options:
        again = _trainer(arguments)
        again.train(resume_from_checkpoint=True)
        report["resumed_at"] = again.state.global_step
    if arguments.process_index == 0:
        (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")


def _trainer(arguments: TrainingArguments) -> Trainer:
    config = GPT2Config(
        vocab_size=32, n_positions=16, n_embd=32, n_layer=2, n_head=2,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    model = GPT2LMHeadModel(config)
    return Trainer(model, arguments, train_dataset=Numbers(), eval_dataset=Numbers())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), *sys.argv[4:])
