"""The two programs that are timed: gradnn's, and the worker that runs PyTorch.

One case that fails must not take the others with it, whatever it does to its
process: it is left out, with the reason, and the rest is run again.
"""

import json
import math
import pathlib
import queue
import subprocess
import sys
import threading
import time

PROGRAM_TRIES = 3  # processes that may end without naming the graph that did it


class ProgramError(Exception):
    """The program cannot be used at all."""


def gradnn_info(program):
    """What `gradnn info --json` says of the machine."""
    try:
        done = subprocess.run(
            [program, "info", "--json"], capture_output=True, text=True, timeout=120
        )
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise ProgramError(f"{program} cannot be run: {failure}") from failure
    if done.returncode != 0:
        raise ProgramError(f"{program} info: {_last_line(done.stderr)}")
    return json.loads(done.stdout)


def time_graphs(program, options, seconds, files, report, limit=None):
    """Times graph files; returns (what gradnn reports, {file: reason}).

    `options` are further ones of gradnn bench. The report's results hold one
    entry per graph file that ran. After `limit` seconds in all, what has not run
    has neither result nor reason.
    """
    ends = time.monotonic() + (math.inf if limit is None else limit)
    whole = {"results": []}
    failed = {}
    waiting = [list(files)]
    while waiting:
        group = waiting.pop(0)
        if not group:
            continue
        left = ends - time.monotonic()
        if left <= 0:
            break
        status, errors = _run(program, options, seconds, group, report, left)
        if status is None and time.monotonic() >= ends:
            break
        if status == 0:
            with open(report, encoding="utf-8") as text:
                part = json.load(text)
            whole = part | {"results": whole["results"] + part["results"]}
            continue
        reason = _reason(status, errors)
        # A process that was ended has said nothing but how far it was, of late.
        said = _last_line(errors) if status and status > 0 else ""
        named = [file for file in group if file in said]
        if len(group) == 1:
            failed[group[0]] = reason
        elif len(named) == 1:
            failed[named[0]] = reason
            waiting.insert(0, [file for file in group if file != named[0]])
        else:
            middle = len(group) // 2
            waiting[:0] = [group[:middle], group[middle:]]
    return whole, failed


def _run(program, options, seconds, files, report, most):
    command = [program, "bench", *options, "--seconds", str(seconds)]
    command += ["--json", report, *files]
    limit = min(most, 120 + len(files) * (60 + 10 * seconds))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired as expired:
        text = expired.stderr or b""
        errors = text.decode(errors="replace") if isinstance(text, bytes) else text
        return None, errors
    return done.returncode, done.stderr


def _reason(status, errors):
    line = _last_line(errors)
    if status is None:
        return f"took too long {line}".strip()
    if status < 0:
        return f"ended by signal {-status} {line}".strip()
    return line or f"exit status {status}"


def _last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


class Worker:
    """A process that answers one job at a time, one JSON line each."""

    def __init__(self, command, seconds_per_job=180):
        self._command = command
        self._limit = seconds_per_job
        self._process = None
        self._unexplained = 0
        self.about = {}
        self._start()

    def _start(self):
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines = queue.Queue()
        self._errors = []
        process, lines, errors = self._process, self._lines, self._errors

        def read_answers():
            for line in process.stdout:
                lines.put(line)
            lines.put(None)

        def read_errors():
            for line in process.stderr:
                errors.append(line)
                del errors[:-20]

        threading.Thread(target=read_answers, daemon=True).start()
        threading.Thread(target=read_errors, daemon=True).start()
        answer = self._answer()
        self.about = answer if "failed" not in answer else {"absent": answer["failed"]}

    def _answer(self, most=math.inf):
        limit = min(self._limit, most)
        try:
            line = self._lines.get(timeout=limit)
        except queue.Empty:
            self._process.kill()
            self._process.wait()
            return {"failed": f"no answer in {limit:.0f} s", "ended": True}
        if line is None:
            status = self._process.wait()
            said = _last_line("".join(self._errors))
            failed = f"PyTorch's process ended with {status}: {said}"
            return {"failed": failed, "ended": True}
        return json.loads(line)

    def time(self, job, most=math.inf):
        """{"ms": ...}, {"refused": why}, {"absent": why} or {"failed": why}, this
        too where there is no answer in `most` seconds."""
        if "absent" in self.about:
            return {"absent": self.about["absent"]}
        if self._unexplained >= PROGRAM_TRIES:
            return {"failed": f"PyTorch's process ended {PROGRAM_TRIES} times before"}
        if self._process.poll() is not None:
            self._start()
            if "absent" in self.about:
                return {"absent": self.about["absent"]}
        try:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # its end is the answer
        answer = self._answer(most)
        if answer.pop("ended", False):
            self._unexplained += 1
        return answer

    def close(self):
        if self._process.poll() is None:
            self._process.stdin.close()
            try:
                self._process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def pytorch(device):
    worker = pathlib.Path(__file__).resolve().parent / "peers" / "pytorch.py"
    return Worker([sys.executable, str(worker), "--worker", device])
