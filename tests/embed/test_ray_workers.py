"""The same job on a real Ray on this machine: the same bytes, and gone on with by either engine."""

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
# Ray's own code is not free of warnings, nor does it close all it opens. What is long is begun
# together, so that one process has it and no other has to.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.long]
LINES = make_lines(300)


@pytest.fixture(scope="module")
def ray():
    """A small Ray, ended with this file."""
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
                # It gives itself half a minute, which may be short on a machine with other work.
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
        run_job(folder / "text.txt", folder / "whole", folder / "model", shard_words=200)
    return folder


def run(home, output, **settings):
    settings = {"shard_words": 200, "engine": "ray", "workers": 2, **settings}
    return run_job(home / "text.txt", output, home / "model", **settings)


def test_the_same_folder(ray, home, tmp_path, monkeypatch):
    """Begun by one engine and gone on with by the other."""
    monkeypatch.setattr("elmo.progress.PLAIN_INTERVAL", 0.0)

    def some(given, tasks, n_workers, advance):
        yield from in_this_process(given, tasks[:2], n_workers, advance)
        raise KeyboardInterrupt

    monkeypatch.setitem(sharded_job.ENGINES, "local", some)
    with pytest.raises(KeyboardInterrupt):
        run(home, tmp_path / "out", engine="local")
    result = run(home, tmp_path / "out")
    assert result.n_new_shards == result.n_shards - 2 > 3
    assert contents(tmp_path / "out") == contents(home / "whole")
    assert run(home, tmp_path / "out").n_new_shards == 0
    assert ray.is_initialized()


def test_an_error_of_an_actor_is_that_of_the_job(ray, home, tmp_path, monkeypatch):
    def other(sharded_job, tasks, n_workers, advance):
        settings = dataclasses.replace(sharded_job.settings, model="other")
        yield from ray_workers.work_on_ray(
            dataclasses.replace(sharded_job, settings=settings), tasks, n_workers, advance
        )

    monkeypatch.setitem(sharded_job.ENGINES, "ray", other)
    with pytest.raises(ConfigError, match="has changed since the job was begun"):
        run(home, tmp_path / "out")


def test_a_task_that_kills_its_actors(ray, home, tmp_path, monkeypatch):
    class Deadly(RayActor):
        def __init__(self, sharded_job):
            super().__init__(sharded_job)
            self._worker = lambda task, tell: os.kill(os.getpid(), signal.SIGKILL)

        def __call__(self, row):
            # An actor takes long to begin: as if two had died of it before the first.
            task = pickle.loads(row["task"])
            path = self._job.folder / "shards" / f".{task.number:05d}.tries.partial"
            if not path.exists():
                path.write_bytes(b"..")
            return super().__call__(row)

    # A class made here travels whole; Ray's processes need not import tests.
    monkeypatch.setattr(ray_workers, "RayActor", Deadly)
    told = r"3 workers ended too early at shard \d{5}; what was finished stays"
    with pytest.raises(OutputError, match=told):
        run(home, tmp_path / "out", workers=1)
    # Who tries again begins to count again.
    assert not list((tmp_path / "out" / "shards").iterdir())


def test_a_cluster_that_is_not_there(home, tmp_path, monkeypatch):
    found = ray_workers.find_ray()

    def init(**settings):
        raise ConnectionError("Failed to connect\n  to 127.0.0.1:6379")

    monkeypatch.setattr(found, "init", init)
    monkeypatch.setattr(found, "is_initialized", lambda: False)
    monkeypatch.setattr(found, "shutdown", lambda: None)
    shown = found.data.DataContext.get_current().enable_progress_bars
    told = "its cluster does not answer: Failed to connect to 127.0.0.1:6379; what was finished"
    with pytest.raises(OutputError, match=told):
        run(home, tmp_path / "out")
    assert found.data.DataContext.get_current().enable_progress_bars == shown


def test_an_actor_by_itself(home, tmp_path, monkeypatch):
    """What runs in Ray's processes, here."""

    def alone(given, tasks, n_workers, advance):
        actor = RayActor(given)
        for task in tasks:
            yield pickle.loads(actor({"task": pickle.dumps(task)})["answer"])
        wrong = pickle.loads(actor({"task": pickle.dumps(None)})["answer"])
        assert isinstance(wrong, AttributeError)
        actor._worker.reader.close()

    monkeypatch.setitem(sharded_job.ENGINES, "ray", alone)
    run(home, tmp_path / "out")
    assert contents(tmp_path / "out") == contents(home / "whole")


def test_without_its_extra(home, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray.data", None)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"the engine ray needs .*elmo-torch\[scale\]"):
        run(home, tmp_path / "out")
    assert not (tmp_path / "out").exists()
