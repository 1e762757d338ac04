"""A GPU of a few lines: it runs what is launched, or records it, and breaks as CUDA does."""

import warnings
from contextlib import contextmanager

import torch


class ToyGPU:
    """Launched work runs at once, or is written down while a graph is recorded.

    Waiting for the device invalidates a recording. As in PyTorch, a recording that was invalidated
    cannot be ended in order, and leaves the random generator and the current stream as they are.
    """

    def __init__(self, monkeypatch):
        self.recording = None  # the graph that is recorded
        self.current = "default"  # stream
        self.sync_mode = 0
        self.generator = ToyGenerator()
        for name in ("Stream", "CUDAGraph", "stream", "graph", "current_stream"):
            monkeypatch.setattr(torch.cuda, name, getattr(self, name))
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: self.recording is not None)
        monkeypatch.setattr(torch.cuda, "default_generators", [self.generator])
        monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: self.sync_mode)
        monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda mode: setattr(self, "sync_mode", mode))

    # what a step does

    def launch(self, work):
        """A kernel."""
        if self.recording is None:
            work()
        else:
            self.recording.work.append(work)

    def wait(self):
        """A synchronisation of host and device."""
        if self.recording is not None:
            self.recording.is_valid = False
            raise RuntimeError("operation not permitted when stream is capturing.\nmore words")
        if self.sync_mode == "warn":
            warnings.warn("called a synchronizing CUDA operation", stacklevel=2)

    def random(self):
        """The number of the next draw; a recording draws anew in every replay."""
        return self.generator.draw(self.recording is not None)

    # what stands in for torch.cuda

    def Stream(self, device=None):
        return ToyStream("side")

    def current_stream(self):
        return ToyStream(self.current)

    @contextmanager
    def stream(self, stream):
        before, self.current = self.current, stream.name
        try:
            yield
        finally:
            self.current = before

    def CUDAGraph(self):
        return ToyGraph(self)

    @contextmanager
    def graph(self, graph, stream):
        before, self.current = self.current, stream.name
        self.recording, self.generator.is_recorded = graph, True
        try:
            yield
        finally:
            self.recording = None
            if not graph.is_valid:
                raise RuntimeError("operation failed due to a previous error during capture")
            self.current, self.generator.is_recorded = before, False


class ToyStream:
    def __init__(self, name):
        self.name = name

    def wait_stream(self, other):
        pass


class ToyGraph:
    def __init__(self, gpu):
        self.gpu, self.work, self.is_valid = gpu, [], True

    def replay(self):
        for work in self.work:
            work()


class ToyGenerator:
    """Counts its draws; one that believes to be recorded refuses to draw outside a recording."""

    def __init__(self, draws=0):
        self.draws, self.is_recorded = draws, False

    def draw(self, in_recording):
        assert in_recording == self.is_recorded, "Offset increment outside graph capture"
        if not in_recording:
            self.draws += 1
        return self.draws

    def clone_state(self):
        return ToyGenerator(self.draws)

    def graphsafe_set_state(self, state):
        self.draws, self.is_recorded = state.draws, state.is_recorded
