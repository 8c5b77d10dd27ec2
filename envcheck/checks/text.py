"""Known error text as evidence: what logs, tracebacks and ranks' stderr say of a rule."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from envcheck.engine.intents import Intent
from envcheck.engine.rule import Confidence, Evidence, Facts, Hit, Matches


def first_of(
    cases: Mapping[str, object], values: Mapping[str, object], evidence: tuple[Evidence, ...] = (), fixes: tuple[Intent, ...] = ()
) -> Hit | None:
    """A hit of the first variant whose condition holds, if one does; "default" is the message without a variant."""
    variant = next((variant for variant, holds in cases.items() if holds), None)
    return Hit(values, evidence, fixes, None if variant == "default" else variant) if variant else None


def cite(source: str, *texts: str | None) -> tuple[Evidence, ...]:
    """What a source said, as evidence; nothing where it said nothing."""
    return tuple(Evidence(source, text) for text in texts if text)


def quoted(matches: Matches, limit: int = 3) -> tuple[Evidence, ...]:
    """Matches as the evidence of a hit, each line once: several rows may know it, and it may have been put together from two."""
    kept: dict[str, Evidence] = {}
    for match in matches:
        words = "".join(match.text.strip("…").split())
        if len(kept) < limit and not any(words in one or one in words for one in kept):
            kept[words] = Evidence(match.source, match.text)
    return tuple(kept.values())


def distinct(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Evidence without what an earlier piece says already: a tool's message is met again as a known error text."""
    kept: list[Evidence] = []
    for one in evidence:
        words = " ".join(one.text.split()).lower()
        if not words or not any(words in " ".join(other.text.split()).lower() for other in kept):
            kept.append(one)
    return tuple(kept)


def environment(variables: Mapping[str, str], names: Iterable[str]) -> tuple[Evidence, ...]:
    """Variables as they are set."""
    return tuple(Evidence("environment", f"{name}={variables[name]}") for name in names)


def value(matches: Matches, name: str) -> str | None:
    """The first value that the symptoms' patterns captured under this name."""
    return next((match.values[name] for match in matches if match.values.get(name)), None)


def alone(facts: Facts, rule_id: str) -> Matches:
    """Of the lines that name this rule, those whose symptom names this rule only; the others leave the cause to the facts."""
    shared = {match.symptom or match.text for match in facts.symptoms.matches if match.rule != rule_id}
    return tuple(match for match in facts.said(rule_id) if (match.symptom or match.text) not in shared)


def of_variant(matches: Matches, *variants: str) -> Matches:
    """Of these lines, those whose row names one of these variants."""
    return tuple(match for match in matches if match.variant in variants)


def of_symptom(facts: Facts, *ids: str) -> Matches:
    """The matched lines of these symptoms, whatever rule they name."""
    return tuple(match for match in facts.symptoms.matches if match.symptom in ids)


def in_a_hosted_notebook(facts: Facts) -> bool:
    """Whether a person tells of Colab or Kaggle without a GPU: nobody installs a driver there, and a card that is named is at home."""
    return bool(of_variant(facts.said("torch-cuda-unavailable"), "colab", "kaggle"))


def agreed(matches: Matches) -> str | None:
    """The variant that the rows of all these lines name."""
    variants = {match.variant for match in matches}
    return variants.pop() or None if len(variants) == 1 else None


def foremost(matches: Matches, *variants: str) -> str | None:
    """The first of these variants that a row of these lines names."""
    return next((variant for variant in variants if of_variant(matches, variant)), None)


def doubt(matches: Matches) -> Confidence | None:
    """Likely where no row of these lines proves anything by itself."""
    return Confidence.LIKELY if matches and all(match.confidence == "likely" for match in matches) else None


def of_programs(matches: Matches) -> Matches:
    """Of these lines, those that a program printed; not the answers to this tool's own questions on this machine.

    A machine without a GPU answers "Found no NVIDIA driver" when asked, which is no complaint.
    """
    return tuple(match for match in matches if match.source not in ("torch.cuda", "nvidia-smi", "NVML", "import torch"))


def surplus(matches: Matches) -> bool:
    """Whether these lines count ranks at a store, and all of them more than there should be."""
    counts = [f"{match.values.get('joined')} {match.values.get('world_size')}" for match in matches]
    both = [found and (int(found[1]), int(found[2])) for found in (re.fullmatch(r"(\d{1,18}) (\d{1,18})", count) for count in counts)]
    return bool(both) and all(found and found[0] > found[1] for found in both)
