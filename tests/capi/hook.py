"""What a PBS hook does: liblibra.so through ctypes, with the standard library alone."""

import ctypes
import json
import math
import sys
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_char, c_char_p, c_double, c_int, c_int32,
                    c_size_t, c_uint32, c_uint64, c_void_p, sizeof)

libra = ctypes.CDLL(sys.argv[1])


class Sized(Structure):
    def __init__(self, **fields):
        super().__init__(size=sizeof(type(self)), **fields)


class Job(Sized):
    _fields_ = [("size", c_size_t), ("estimate", c_double), ("deadline", c_double),
                ("budget", c_double), ("penalty_rate", c_double), ("memory_per_chunk", c_uint64),
                ("chunks", c_uint32), ("processors_per_chunk", c_uint32),
                ("deadline_type", c_int32), ("scatter", c_int32)]


class RunningJob(Sized):
    _fields_ = [("size", c_size_t), ("estimate", c_double), ("deadline", c_double),
                ("cput", c_double), ("walltime", c_double), ("share", c_double),
                ("memory", c_uint64), ("slots", c_uint32), ("reserved", c_uint32)]


class Node(Sized):
    _fields_ = [("size", c_size_t), ("processors", c_double), ("rating", c_double),
                ("memory", c_uint64), ("jobs", POINTER(RunningJob)), ("job_count", c_size_t),
                ("available", c_int32), ("reserved", c_uint32)]


class Placement(Sized):
    _fields_ = [("size", c_size_t), ("node", c_size_t), ("share", c_double),
                ("loadfree", c_double), ("chunks", c_uint32), ("reserved", c_uint32)]


class Decision(Sized):
    _fields_ = [("size", c_size_t), ("placements", POINTER(Placement)),
                ("placement_capacity", c_size_t), ("placement_count", c_size_t),
                ("text", c_void_p), ("text_capacity", c_size_t), ("text_length", c_size_t),
                ("reason", c_int32), ("within_budget", c_int32), ("token", c_uint64),
                ("price", c_double), ("node", c_size_t), ("share", c_double),
                ("loadfree", c_double), ("needed", c_double), ("available", c_double),
                ("evidence_node", c_size_t), ("counter_deadline", c_double),
                ("counter_deadline_price", c_double), ("counter_budget", c_double),
                ("counter_shape_price", c_double), ("counter_chunks", c_uint32),
                ("counter_processors", c_uint32)]


class Allocation(Sized):
    _fields_ = [("size", c_size_t), ("share", c_double), ("chunks", c_uint32),
                ("deadline_status", c_int32), ("node", c_char * 256)]


libra.req_budget.argtypes = [c_double] * 3
libra.libra_last_error.restype = c_char_p
libra.libra_version.restype = c_char_p
libra.libra_book_open.argtypes = [c_char_p, POINTER(c_void_p)]
libra.libra_book_close.argtypes = [c_void_p]
libra.libra_book_set_node.argtypes = [c_void_p, c_char_p, POINTER(Node)]
libra.libra_book_admit.argtypes = [c_void_p, POINTER(Job), c_double, POINTER(Decision)]
libra.libra_book_bind.argtypes = [c_void_p, c_uint64, c_char_p, c_double]
libra.libra_book_allocations.argtypes = [c_void_p, c_char_p, POINTER(Allocation), c_size_t, POINTER(c_size_t)]
libra.libra_book_snapshot.argtypes = [c_void_p, POINTER(c_void_p)]
libra.libra_book_rebuild.argtypes = [c_void_p, c_char_p, POINTER(c_void_p)]
libra.libra_string_free.argtypes = [c_void_p]
libra.libra_parse_terms.argtypes = [c_char_p, POINTER(Job)]
libra.accept_reject_all_nodes.argtypes = [POINTER(Job), POINTER(Node), c_size_t, POINTER(Decision)]


# The examples of the specification know no margin.
EXACT = b"[admission]\nestimate-margin = '0%'\n"


def job(terms):
    result = Job(chunks=1, processors_per_chunk=1)
    assert libra.libra_parse_terms(terms, byref(result)) == 0, libra.libra_last_error()
    return result


def node(processors=1.0, jobs=()):
    array = (RunningJob * len(jobs))(*jobs) if jobs else None
    return Node(processors=processors, rating=1.0, memory=2**64 - 1, jobs=array,
                job_count=len(jobs), available=1)


def the_papers_line():
    asked = job(b"deadline=20,budget=15,estimate=10")
    assert libra.req_budget(asked.budget, asked.estimate, asked.deadline) == 1
    assert libra.req_budget(10.0, 10.0, 20.0) == 0
    assert libra.req_budget(math.nan, 10.0, 20.0) == -201
    assert b"budget is NaN" in libra.libra_last_error()


def nodes_with_jobs():
    runs = RunningJob(estimate=30, deadline=50, cput=20, walltime=20, slots=1)
    nodes = (Node * 2)(node(), node(jobs=[runs]))
    asked = job(b"deadline=3,budget=15,estimate=2")
    text = ctypes.create_string_buffer(300)
    decision = Decision(text=ctypes.addressof(text), text_capacity=300)
    assert libra.accept_reject_all_nodes(asked, nodes, 2, decision) == 1
    assert decision.node == 1 and abs(decision.loadfree) < 1e-9
    asked.chunks = 5
    assert libra.accept_reject_all_nodes(asked, nodes, 2, decision) == 0
    # Two of them would fit; the work of five on two takes 5 s.
    assert decision.counter_chunks == 0
    assert b"5 chunks" in text.value and len(text.value) == decision.text_length


def a_book_over_its_restart():
    book, json_text, problems = c_void_p(), c_void_p(), c_void_p()
    assert libra.libra_book_open(EXACT, byref(book)) == 0
    assert libra.libra_book_set_node(book, b"n1", node(2.0)) == 0
    decision, asked = Decision(), job(b"deadline=20,budget=15,estimate=10")
    assert libra.libra_book_admit(book, asked, 100.0, decision) == 1
    assert libra.libra_book_bind(book, decision.token, b"7.server", 100.0) == 0
    place, count = Allocation(), c_size_t()
    assert libra.libra_book_allocations(book, b"7.server", place, 1, byref(count)) == 0
    assert place.node == b"n1" and place.share == 0.5 and count.value == 1
    assert libra.libra_book_snapshot(book, byref(json_text)) == 0
    snapshot = ctypes.string_at(json_text.value)
    libra.libra_string_free(json_text)
    assert json.loads(snapshot)["jobs"][0]["id"] == "7.server"
    libra.libra_book_close(book)
    assert libra.libra_book_open(EXACT, byref(book)) == 0
    assert libra.libra_book_rebuild(book, snapshot, byref(problems)) == 0 and not problems.value
    assert libra.libra_book_allocations(book, b"7.server", place, 1, byref(count)) == 0
    libra.libra_book_close(book)


def a_log_in_python():
    lines = []

    @CFUNCTYPE(None, c_int, c_char_p, c_char_p, c_void_p)
    def callback(level, target, text, _):
        lines.append((level, target, text))

    libra.libra_set_log.argtypes = [c_void_p, c_void_p, c_int]
    libra.libra_book_advance.argtypes = [c_void_p, c_double]
    assert libra.libra_set_log(callback, None, 3) == 0
    book = c_void_p()
    assert libra.libra_book_open(EXACT, byref(book)) == 0
    assert libra.libra_book_set_node(book, b"n1", node()) == 0
    asked = job(b"deadline=20,budget=15,estimate=10")
    assert libra.libra_book_admit(book, asked, 0.0, Decision()) == 1
    assert libra.libra_book_advance(book, 60.0) == 0
    assert libra.libra_set_log(None, None, 0) == 0
    assert len(lines) == 1 and b"expired" in lines[0][2], lines
    libra.libra_book_close(book)


for test in (the_papers_line, nodes_with_jobs, a_book_over_its_restart, a_log_in_python):
    try:
        test()
        print(f"ok {test.__name__}")
    except Exception as error:  # every test gets its line
        print(f"FAILED {test.__name__}: {type(error).__name__} {error} {libra.libra_last_error()}")
