"""Functions of SciPy and scikit-learn that follow the array API standard take effx arrays, and return them.

SciPy reads the environment when it is imported, so that each test runs a program of its own.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
from typing import Any

import pytest

# The programs: `X` makes an array, of NumPy's or effx's; `a`, `b` are vectors, `m` a matrix, `p` positive.
SCIPY = """
special.erf(X(a)); special.gammaln(X(p)); special.expit(X(a)); special.softmax(X(m), axis=1); special.entr(X(p));
stats.ttest_ind(X(a), X(b)).statistic; stats.skew(X(m)); stats.kurtosis(X(m), axis=None); stats.moment(X(a), 3);
stats.gmean(X(p)); stats.hmean(X(p)); stats.pmean(X(p), 2); stats.variation(X(p)); stats.circmean(X(a));
stats.zmap(X(m), X(m)); stats.sem(X(m)); stats.tmean(X(a), (-1, 1)); stats.describe(X(m)).variance;
stats.rankdata(X(a)); stats.linregress(X(a), X(b)).slope; stats.jarque_bera(X(a)).pvalue; stats.kstat(X(a), 3);
signal.convolve(X(a), X(b)); signal.fftconvolve(X(a), X(b)); signal.correlate(X(a), X(b)); signal.detrend(X(a));
signal.lfilter(X(p[:2]), X(p[1:3]), X(a)); signal.freqz(X(p[:2]))[1]; signal.medfilt(X(a), 3);
fft.fft(X(a)); fft.rfft(X(a)); fft.irfft(fft.rfft(X(a))); fft.fftn(X(m)); fft.dct(X(a)); fft.fftshift(X(a));
integrate.trapezoid(X(a)); integrate.simpson(X(a)); integrate.cumulative_trapezoid(X(m)); optimize.rosen(X(a));
ndimage.gaussian_filter(X(m), 1.0); cluster.vq.vq(X(m), X(m[:3]))[1];
spatial.transform.Rotation.from_rotvec(X(m)).as_matrix()
"""
TRACED = """
special.softmax(x); stats.skew(x); stats.gmean(x); stats.moment(x, 3);
fft.rfft(x).real; integrate.simpson(x); signal.fftconvolve(x, x)
"""
SKLEARN = """
metrics.mean_squared_error(X(a), X(b)); metrics.mean_absolute_error(X(a), X(b)); metrics.max_error(X(a), X(b));
metrics.accuracy_score(X(c), X(c[::-1].copy())); metrics.zero_one_loss(X(c), X(c[::-1].copy()));
metrics.pairwise.linear_kernel(X(m)); metrics.pairwise.polynomial_kernel(X(m)); metrics.confusion_matrix(X(c), X(c));
preprocessing.KernelCenterer().fit_transform(X(m @ m.T)); preprocessing.LabelEncoder().fit_transform(X(c));
decomposition.PCA(2, svd_solver="full").fit_transform(X(m)); linear_model.RidgeCV().fit(X(m), X(a)).predict(X(m));
model_selection.train_test_split(X(m), random_state=0)[0]
"""
RUN = """
import json, sys, warnings
import numpy as np
import effx, effx.numpy as enp
{imports}
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
a, b = rng.normal(size=(2, 20)).astype(np.float32)
m, p, c = rng.normal(size=(20, 3)).astype(np.float32), np.abs(a) + np.float32(0.1), (a > 0).astype(np.int32)
report = {{}}
for text in sys.stdin.read().split(";"):
    text = text.strip()
    try:
        {body}
    except Exception as error:
        report[text] = f"{{type(error).__name__}}: {{error}}"
print(json.dumps(report))
"""
COMPARED = """X = enp.asarray
        got = eval(text)
        X = np.asarray
        want = eval(text)
        # What is a Python number of NumPy's arrays is one of others too.
        assert isinstance(got, effx.Array) or type(got) is type(want) is float, type(got)
        if isinstance(got, effx.Array):
            assert got.dtype == want.dtype or want.dtype.itemsize == 8, (got.dtype, want.dtype)
        np.testing.assert_allclose(np.asarray(got), want, rtol=2e-4, atol=2e-5)"""
DERIVED = """f = eval("lambda x: (" + text + ").sum()")
        x = enp.asarray(np.abs(m) + np.float32(0.1))
        np.testing.assert_allclose(effx.jit(f)(x), f(x), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(effx.vmap(f)(x[None])[0], f(x), rtol=1e-4, atol=1e-6)
        with effx.enable_x64(True):
            x, d = enp.asarray(np.abs(m.astype(float)) + 0.1), enp.asarray(m.astype(float))
            slope = (f(x + 1e-5 * d) - f(x - 1e-5 * d)) / 2e-5
            np.testing.assert_allclose((effx.grad(f)(x) * d).sum(), slope, rtol=1e-5, atol=1e-7)"""


def failures(imports: str, body: str, texts: str) -> dict[str, str]:
    """Runs expressions in a new process; returns those that fail, and how."""
    program = RUN.format(imports=imports, body=body)
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=texts.strip(),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {text: str(error) for text, error in report.items()}


def needs(package: str, *release: int) -> None:
    """Skips a test where a package is not there, or is older than its functions take arrays of others."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    version = importlib.metadata.version({"sklearn": "scikit-learn"}.get(package, package))
    if tuple(map(int, version.split(".")[:2])) < release:
        pytest.skip(f"{package} {version} knows fewer functions")


def test_scipy() -> None:
    """SciPy's functions give on effx arrays what they give on NumPy's, as effx arrays."""
    needs("scipy", 1, 18)
    names = ["cluster", "fft", "integrate", "ndimage", "optimize", "signal", "spatial", "special", "stats"]
    imports = f"from scipy import {', '.join(names)}\nimport scipy.cluster.vq, scipy.spatial.transform"
    assert failures(imports, COMPARED, SCIPY) == {}


def test_scipy_of_traced_arrays() -> None:
    """SciPy's functions that are made of the standard's have derivatives, and are compiled and vectorized."""
    needs("scipy", 1, 18)
    assert failures("from scipy import fft, integrate, signal, special, stats", DERIVED, TRACED) == {}


def test_scikit_learn() -> None:
    """Metrics, kernels and models that write into no array take effx arrays."""
    needs("sklearn", 1, 9)
    names = ["decomposition", "linear_model", "metrics", "model_selection", "preprocessing"]
    imports = (
        f"import sklearn\nfrom sklearn import {', '.join(names)}\nsklearn.set_config(array_api_dispatch=True)"
    )
    assert failures(imports, COMPARED, SKLEARN) == {}
