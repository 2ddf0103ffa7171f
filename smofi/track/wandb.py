"""Weights & Biases: https://docs.wandb.ai, online or, with mode="offline", into files to send later by `wandb sync`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smofi.track.tracker import Tracker, need, started


class WandB(Tracker):
    """Record a run in a project of Weights & Biases. Needs the extra `wandb`.

    `mode` is "online", "offline" or "disabled"; if not given, what WANDB_MODE says, or online. Other keywords go to
    `wandb.init`: name, dir, id, entity, group, tags.
    """

    name = "Weights & Biases"

    def __init__(
        self,
        project: str = "smofi",
        *,
        config: Mapping[str, Any] | None = None,
        mode: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(config)
        wandb = need("wandb", "wandb")
        # Off: it would capture the terminal that the live display draws on.
        settings = {"console": "off", "silent": True}
        self.run = started(
            self.name, lambda: wandb.init(project=project, mode=mode, settings=wandb.Settings(**settings), **options)
        )
        self.id: str = self.run.id
        self.where: str = str(self.run.settings.sync_dir if self.run.offline else self.run.url)

    def hyperparameters(self, values: dict[str, Any]) -> None:
        self.run.config.update(values, allow_val_change=True)

    def numbers(self, round: int, values: dict[str, float]) -> None:
        self.run.log(values, step=round)

    def text(self, kind: str, message: str, round: int) -> None:
        self.run.summary[kind] = self.collected(kind, message, round)

    def end(self, completed: bool) -> None:
        self.run.finish(exit_code=0 if completed else 1)
