"""The gate's fit at 10,000 pairs × 64 chunks beside statsmodels alone: time, and that both agree.

python scripts/bench_gate_fit.py [--pairs 10000 --chunks 64] [--repeats 5]

The gate's fit is statsmodels' OLS after an audit of rank and leverage. With one row per task its HC3 errors are taken.
With five rows per task ours are CR3, which leaves whole tasks out; beside it stands statsmodels' plain cluster
sandwich, which does less. Time is processor time of one thread, in turns; the limit is the singular value
decomposition that no audited fit goes without. Writes docs/results/bench_gate_fit.csv.
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from bench_model import in_turns, write_rows
from statsmodels.regression.linear_model import OLS

from intraskill.method.gate.pairs import MAIN_PART, Vector
from intraskill.method.gate.regression import Regression, contributions_of

TOLERANCE = 1e-9


def compare(pairs: int, chunks: int, per_task: int, repeats: int) -> list[dict[str, Any]]:
    """Measure one number of rows per task, print what was found and return the rows."""
    draws = np.random.Generator(np.random.PCG64(0))
    design_NJ: Vector = (draws.random((pairs, chunks)) < 0.5).astype(float)
    outcome_N = design_NJ @ draws.normal(0, 0.05, chunks) + draws.normal(0, 0.4, pairs)
    task_of_N = np.arange(pairs) // per_task
    names = tuple(f"c{j}" for j in range(chunks))
    model = Regression("paired_ols", tuple(f"t{i}" for i in task_of_N), names, design_NJ, {MAIN_PART: outcome_N})
    options: dict[str, Any] = {"cov_type": "HC3"}
    if per_task > 1:
        options = {"cov_type": "cluster", "cov_kwds": {"groups": task_of_N}}
    ours = contributions_of(model)
    theirs = OLS(outcome_N, design_NJ).fit(use_t=True, **options)
    assert np.allclose(ours.beta_J, theirs.params, rtol=0, atol=TOLERANCE), "the fits differ"
    assert per_task > 1 or np.allclose(ours.se_J, theirs.bse, rtol=0, atol=TOLERANCE), "the standard errors differ"
    variants: dict[str, Callable[[], object]] = {
        "intraskill": lambda: contributions_of(model),
        "statsmodels": lambda: OLS(outcome_N, design_NJ).fit(use_t=True, **options).bse,
        "svd_alone": lambda: np.linalg.svd(design_NJ, full_matrices=False),
    }
    rows: list[dict[str, Any]] = []
    facts = {"pairs": pairs, "chunks": chunks, "rows_per_task": per_task, "covariance": ours.covariance}
    facts["statsmodels_covariance"] = options["cov_type"]
    spent = in_turns(variants, repeats, lambda row: rows.append(facts | row))
    print(
        f"gate fit, {pairs} x {chunks}, {ours.covariance}: {spent['intraskill']:.3f} s, statsmodels "
        f"{options['cov_type']} {spent['statsmodels']:.3f} s, the decomposition alone {spent['svd_alone']:.3f} s",
        flush=True,
    )
    return rows


def main() -> None:
    """Measure both and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("pairs", 10_000), ("chunks", 64), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    sizes = arguments.pairs, arguments.chunks
    write_rows("bench_gate_fit", [row for n in (1, 5) for row in compare(*sizes, n, arguments.repeats)])


if __name__ == "__main__":
    main()
