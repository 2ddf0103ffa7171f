"""The appendix: other distributions, fewer clients a round, text and audio."""

from __future__ import annotations

from smofi.reproduce.items.lines import beside, five_on
from smofi.reproduce.items.parts import BEST, MEAN, ROUNDS, Check, Claim, Item, Panel
from smofi.reproduce.items.tasks import FASHION, SHAKESPEARE, SPEECH, TINY, Task, images

DISTRIBUTIONS = {"Dir 0.5": "dirichlet(0.5)", "IID": "iid"}
SHARES = {10: 0.05, 20: 0.1, 30: 0.15}
"""Of 200 clients, as in the paper; at small scale the same shares of 100."""

SMALL_TEXT = Task("Shakespeare", "shakespeare", "small", SHAKESPEARE.tuned, steps=47, changes={"executor": "auto"})
SMALL_SPEECH = Task(
    "Google Speech",
    "speech-commands",
    "small",
    SPEECH.tuned,
    steps=14,
    changes={"executor": "loop"},
    stand_in={"data": "npz:words.npz"},
)


def _distributions(scale: str) -> tuple[Panel, ...]:
    return tuple(
        Panel(f"{task.title}, {how}", task, five_on(task), {"partition": partition}, beside=beside(task, how))
        for how, partition in DISTRIBUTIONS.items()
        for task in images(scale)
    )


def _participation(scale: str) -> tuple[Panel, ...]:
    task, clients = (TINY, 200) if scale == "paper" else (FASHION, 100)
    return tuple(
        Panel(
            f"{task.title}, {round(share * clients)} of {clients}",
            task,
            five_on(task),
            {"participation": share},
            beside=(f"Tiny-ImageNet, {number} of 200",),
        )
        for number, share in SHARES.items()
    )


def _text_audio(scale: str) -> tuple[Panel, ...]:
    text, speech = (SHAKESPEARE, SPEECH) if scale == "paper" else (SMALL_TEXT, SMALL_SPEECH)
    return (
        Panel("Shakespeare", text, five_on(text), beside=("Shakespeare",)),
        Panel("Google Speech, Dir 0.2", speech, five_on(speech), beside=("Google Speech, Dir 0.2",)),
    )


DISTRIBUTION = Item(
    "table-distributions",
    "Moderately non-IID and IID data",
    _distributions,
    source="tab:supp_exp_result_DIR_0.5_IID",
    claims=(
        Claim("SMoFi has the highest accuracy under both distributions.", (Check("FedAvg + SMoFi"),)),
        Claim("SMoFi takes the fewest rounds under both.", (Check("FedAvg + SMoFi", by=ROUNDS),)),
        Claim(
            "Its gain is larger for less balanced data.",
            (Check("FedAvg + SMoFi", by=MEAN, panel=0, than=(1,), over="FedAvg"),),
        ),
    ),
    published="distributions",
)
PARTICIPATION = Item(
    "table-participation",
    "Fewer clients in a round",
    _participation,
    source="tab:supp_exp_result_involvement",
    claims=(
        Claim("SMoFi is ahead with 5 % of the clients already.", (Check("FedAvg + SMoFi", by=BEST, panel=0),)),
        Claim(
            "It is further ahead the more take part.",
            tuple(Check("FedAvg + SMoFi", by=MEAN, panel=more, than=(more - 1,), over="FedAvg") for more in (1, 2)),
        ),
        Claim(
            "FedAvg takes more rounds the more clients take part.",
            tuple(Check("FedAvg", by=ROUNDS, panel=fewer, than=(fewer + 1,)) for fewer in (0, 1)),
        ),
        Claim(
            "FedAvg ends higher the more clients take part.",
            tuple(Check("FedAvg", by=BEST, panel=more, than=(more - 1,)) for more in (1, 2)),
        ),
    ),
    published="participation",
)
TEXT_AUDIO = Item(
    "table-text-audio",
    "Text and audio",
    _text_audio,
    source="tab:supp_exp_result_momentum_extra_dataset",
    claims=(
        Claim("Shakespeare: SMoFi has the highest accuracy.", (Check("FedAvg + SMoFi", panel=0),)),
        Claim("Shakespeare: FedAvgM reaches the target first.", (Check("FedAvg + FedAvgM", by=ROUNDS, panel=0),)),
        Claim("Google Speech: SMoFi reaches the target first.", (Check("FedAvg + SMoFi", by=ROUNDS, panel=1),)),
    ),
    published="text-audio",
    remarks=(
        "At small scale our own runs of Google Speech are on words.npz: log-mel spectrograms of twelve of the 35 "
        "words, tested on speakers who are not trained on.",
    ),
)
