"""A client's part in a run: what it has agreed to, and what it answers to every message."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from smofi.config import Config
from smofi.cut import Cut, parse_cut
from smofi.data.augment import parse_augment
from smofi.data.samples import TensorSamples
from smofi.engine.cohort.wire import Compression
from smofi.engine.evaluate import AT_A_TIME
from smofi.engine.remote.crossing import Crossing
from smofi.engine.remote.device import Device, DeviceRound
from smofi.engine.remote.messages import Begin, CutGradient, Evaluate, Evaluated, Output, Rest, Up
from smofi.flat import shell
from smofi.models import build
from smofi.net.frames import BadFrame, Parsed
from smofi.net.messages import KINDS, Terms, read_answer, read_begin, read_evaluate, read_rest
from smofi.net.plain import plain_text
from smofi.plural import plural
from smofi.serving.limits import largest_message
from smofi.serving.offer import Accepted, Offer
from smofi.serving.setups import layout_hash, refuse_offer, setup_of, task_of


@dataclass(frozen=True)
class Agreed:
    """What a client has agreed to: its own half, and everything that may cross the cut."""

    offer: Offer
    config: Config
    device: Device
    tests: TensorSamples
    crossings: dict[tuple[int, int], Crossing]
    largest: int = 0  # bytes of a message

    @classmethod
    def of(
        cls, offer: Offer, config: Config, train: TensorSamples, tests: TensorSamples, device: torch.device
    ) -> Agreed:
        """Build the model that the server names, and see that it is the same."""
        task = offer.task
        shape, classes = tuple(task["input_shape"]), len(task["classes"])
        model = build(config.model, seed=0, input_shape=shape, classes=classes, width=config.width, norm=config.norm)
        setup = setup_of(config, model, device)
        layout = setup.layout
        if layout_hash(layout) != offer.layout:
            raise refuse_offer(
                f"its {config.model} has other tensors than the one here: both sides need the same version of smofi"
            )
        cuts = parse_cut(config.cut, layout, offer.clients).options
        asked = task_of(task["kind"], shape, classes, layout)
        crossings = {(cut.first, cut.last): Crossing(setup, cut, asked) for cut in dict.fromkeys(cuts)}
        samples = train.to(layout.dtype, device)
        augment = parse_augment(config.augment) if config.augment else None
        own = Device(setup, samples, augment, device), tests.to(layout.dtype, device)
        largest = largest_message(setup, config, asked, offer.clients, whole_model=offer.evaluates == "clients")
        return cls(offer, config, *own, crossings, largest)

    @property
    def in_short(self) -> str:
        """Who trains what: said when the client joins."""
        config, samples = self.config, plural(len(self.device.samples), "sample")
        (method,) = config.method
        return plain_text(f"with {samples} to train {config.model} with {method}, cut {config.cut}")

    @property
    def cuts(self) -> list[Cut]:
        """All cuts that the run may use."""
        return [crossing.cut for crossing in self.crossings.values()]

    @property
    def wire(self) -> Compression | None:
        """With how many bits numbers cross the cut; None: all of them."""
        wire = self.device.setup.wire
        return wire if isinstance(wire, Compression) else None

    @property
    def sends_labels(self) -> bool:
        """Whether labels would leave this machine."""
        return not all(cut.u_shaped for cut in self.cuts)

    def steps_with(self, batch_size: int) -> int:
        """The steps of a round: those of the method, or T_j = E floor(|D_j| / B_j)."""
        epochs = self.config.local_epochs
        return self.device.setup.method.steps or epochs * (len(self.device.samples) // batch_size)

    @property
    def batch_sizes(self) -> range:
        """The samples that a batch may have: as many as were offered; none if this client has fewer in all."""
        agreed, samples, regulate = (
            self.config.batch_size,
            len(self.device.samples),
            self.device.setup.method.batch_sizes,
        )
        if samples < agreed:
            return range(0)
        if regulate is None:
            return range(agreed, agreed + 1)
        # A served run times no machine, so all are equally fast. What a method gives then may still depend on how much
        # data others have, which a client does not know.
        others = {regulate(agreed, [1.0, 1.0], [samples, other])[0] for other in (agreed, samples, 1000 * samples)}
        return range(min(others), min(others) + 1) if len(others) == 1 else range(1, samples + 1)

    @property
    def terms(self) -> Terms:
        """What every round has to keep to."""
        return Terms(self.config.seed, self.config.rounds, self.batch_sizes, self.steps_with)

    def accepted(self) -> Accepted:
        """What the server is told."""
        return Accepted(len(self.device.samples), len(self.tests), self.offer.layout, self._counts())

    @property
    def tells_counts(self) -> bool:
        """Whether the server is told how many samples of each class there are: the method selects clients by it."""
        return bool(self.device.setup.method.select)

    def _counts(self) -> tuple[int, ...]:
        if not self.tells_counts:
            return ()
        targets = self.device.samples.targets(torch.arange(len(self.device.samples)))
        return tuple(torch.bincount(targets.cpu(), minlength=len(self.offer.task["classes"])).tolist())


class Participation:
    """The rounds of a client, one after the other."""

    def __init__(self, agreed: Agreed) -> None:
        self.agreed, self.setup, self.terms = agreed, agreed.device.setup, agreed.terms
        self.current: DeviceRound | None = None
        self.judged = shell(self.setup.template).eval()

    def answers(self, parsed: Parsed) -> Iterator[Up]:
        """What to send in return; whatever the server sends is checked first."""
        kind = KINDS.get(parsed.kind)
        if kind is Rest:
            if self.current and read_rest(parsed).round == self.current.message.round:
                self.current = None
        elif kind is Evaluate:
            if self.agreed.offer.evaluates != "clients":
                raise BadFrame("kind", f"is {parsed.kind}: this run was not offered with evaluation by clients")
            yield self._judge(read_evaluate(parsed, next(iter(self.agreed.crossings.values()))))
        elif kind is Begin:
            begin = read_begin(parsed, self.agreed.crossings, self.terms)
            self.current = self.agreed.device.begin(begin)
            yield self.current.forward()
        elif self.current is None:
            raise BadFrame("kind", f"is {parsed.kind}: expected begin first")
        else:
            yield self._step(self.current, parsed)

    def _step(self, current: DeviceRound, parsed: Parsed) -> Up:
        plan, cut = current.message.plan, current.message.cut
        crossing = self.agreed.crossings[cut.first, cut.last]
        message = read_answer(parsed, plan, current.steps.done, crossing, self.agreed.wire)
        if isinstance(message, Output):
            return current.finish(message)
        assert isinstance(message, CutGradient)
        current.backward(message)
        if not current.over:
            return current.forward()
        self.current = None
        return current.finished()

    @torch.inference_mode()
    def _judge(self, message: Evaluate) -> Evaluated:
        """Counts on the samples that are held out here."""
        layout, tests, correct = self.setup.layout, self.agreed.tests, 0
        layout.unpack(self.judged, message.weights, message.statistics)
        for start in range(0, len(tests), AT_A_TIME):
            inputs, targets = tests.batch(torch.arange(start, min(start + AT_A_TIME, len(tests))))
            with self.setup.cast():
                outputs = self.judged(inputs)
            correct += int((outputs.argmax(1) == targets).sum())
        return Evaluated(message.round, len(tests), correct)
