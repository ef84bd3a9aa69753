"""Tests of jobs on a local Ray cluster: same bytes as with local workers, and resuming."""

import dataclasses
import os
import pickle
import signal
import sys
import warnings

import pytest
from tiny_jobs import contents, in_this_process, make_lines, run_job, write_model, write_text

from elmo.embed import ray_workers, sharded_job
from elmo.embed.ray_workers import RayActor
from elmo.errors import ConfigError, MissingExtra, OutputError

pytest.importorskip("pyarrow")
# Ray emits warnings and does not close all of its files. The long tests are marked together, so
# that only one test process starts Ray.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.long]
LINES = make_lines(300)


@pytest.fixture(scope="module")
def ray():
    """Start a small Ray cluster for the tests in this file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray = pytest.importorskip("ray", reason="needs Ray: pip install 'elmo-torch[scale]'")
        pytest.importorskip("ray.data", reason="needs Ray: pip install 'elmo-torch[scale]'")
        for is_last in (False, False, True):
            try:
                ray.init(
                    num_cpus=2,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level="error",
                    object_store_memory=100 * 2**20,
                )
                break
            except Exception:
                # Ray's timeout of half a minute can be too short on a busy machine.
                ray.shutdown()
                if is_last:
                    raise
        yield ray
        ray.shutdown()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    write_model(folder / "model")
    write_text(folder / "text.txt", LINES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sharded_job.ENGINES, "local", in_this_process)
        run_job(folder / "text.txt", folder / "expected", folder / "model", shard_words=200)
    return folder


def run(home, output, **settings):
    settings = {"shard_words": 200, "engine": "ray", "workers": 2, **settings}
    return run_job(home / "text.txt", output, home / "model", **settings)


def test_job_started_locally_resumes_on_ray_with_identical_bytes(ray, home, tmp_path, monkeypatch):
    monkeypatch.setattr("elmo.progress.PLAIN_INTERVAL", 0.0)

    def interrupted(job, tasks, n_workers, advance):
        yield from in_this_process(job, tasks[:2], n_workers, advance)
        raise KeyboardInterrupt

    monkeypatch.setitem(sharded_job.ENGINES, "local", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(home, tmp_path / "out", engine="local")
    result = run(home, tmp_path / "out")
    assert result.n_new_shards == result.n_shards - 2 > 3
    assert contents(tmp_path / "out") == contents(home / "expected")
    assert run(home, tmp_path / "out").n_new_shards == 0
    assert ray.is_initialized()


def test_error_in_a_ray_actor_is_raised_by_the_job(ray, home, tmp_path, monkeypatch):
    def with_other_model(job, tasks, n_workers, advance):
        settings = dataclasses.replace(job.settings, model="other")
        yield from ray_workers.run_on_ray(
            dataclasses.replace(job, settings=settings), tasks, n_workers, advance
        )

    monkeypatch.setitem(sharded_job.ENGINES, "ray", with_other_model)
    with pytest.raises(ConfigError, match="has changed since this job was planned"):
        run(home, tmp_path / "out")


def test_job_fails_after_three_ray_actors_die_on_the_same_task(ray, home, tmp_path, monkeypatch):
    class DyingActor(RayActor):
        def __init__(self, job):
            super().__init__(job)
            self._worker = lambda task, report: os.kill(os.getpid(), signal.SIGKILL)

        def __call__(self, row):
            # Actors start slowly, so pretend that two have already died on the task.
            task = pickle.loads(row["task"])
            path = self._job.folder / "shards" / f".{task.number:05d}.tries.partial"
            if not path.exists():
                path.write_bytes(b"..")
            return super().__call__(row)

    # A local class is pickled by value, so Ray's processes need not import the tests.
    monkeypatch.setattr(ray_workers, "RayActor", DyingActor)
    message = r"3 workers died while writing shard \d{5}\. Finished shards are kept"
    with pytest.raises(OutputError, match=message):
        run(home, tmp_path / "out", workers=1)
    # Partial files are removed, but an actor that is being stopped can still count a try.
    names = [path.name for path in (tmp_path / "out" / "shards").iterdir()]
    assert not [name for name in names if not name.endswith(".tries.partial")]


def test_unreachable_ray_cluster_raises_an_error(home, tmp_path, monkeypatch):
    ray = ray_workers.import_ray()

    def init(**settings):
        raise ConnectionError("Failed to connect\n  to 127.0.0.1:6379")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    shown = ray.data.DataContext.get_current().enable_progress_bars
    message = "connect to its cluster: Failed to connect to 127.0.0.1:6379. Finished shards are"
    with pytest.raises(OutputError, match=message):
        run(home, tmp_path / "out")
    assert ray.data.DataContext.get_current().enable_progress_bars == shown


def test_ray_actor_called_without_ray_writes_identical_bytes(home, tmp_path, monkeypatch):
    """The actor is called directly in the test process instead of in a Ray process."""

    def call_actor(job, tasks, n_workers, advance):
        actor = RayActor(job)
        for task in tasks:
            yield pickle.loads(actor({"task": pickle.dumps(task)})["answer"])
        wrong = pickle.loads(actor({"task": pickle.dumps(None)})["answer"])
        assert isinstance(wrong, AttributeError)
        actor._worker.reader.close()

    monkeypatch.setitem(sharded_job.ENGINES, "ray", call_actor)
    run(home, tmp_path / "out")
    assert contents(tmp_path / "out") == contents(home / "expected")


def test_error_for_engine_ray_without_ray_names_the_extra(home, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray.data", None)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"--engine ray requires .*\[scale\]"):
        run(home, tmp_path / "out")
    assert not (tmp_path / "out").exists()
