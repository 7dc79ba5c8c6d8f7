"""The GPU's log read into rows, from logs written by hand as the logger writes them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from kernels.errors import BackendError
from kernels.launch.nvrtc import Compiler, first_error, plain_text, traced_text
from kernels.launch.source import parse_source, read_source
from kernels.listen.gpu_log import CONFIG, REQUEST, STRAY, Decoder
from kernels.listen.log import HOLD_INFO, SNAPSHOT_INFO, Kind, Site, Source
from kernels.listen.rewrite import COMMIT, COPY, WAIT, listen
from tests.kernels.nvrtc import library
from tests.kernels.nvrtc_api import Nvrtc

KERNELS = Path(__file__).parents[2] / "kernels"
needs_nvrtc = pytest.mark.skipif(library() is None, reason="NVRTC is not installed")


def _decoder(*sites: Site) -> Decoder:
    return Decoder(
        sites or (Site(1),) * 9, lambda address, size: {64: "load, t", 128: "As, acc"}[address][:size]
    )


def _request(kind: int, *, base=0, payload=0, mask=1, site=0, warp=0, space=0, stride=0, size=4):
    return (base, payload, mask, site, warp, kind, space, stride, size)


def _rows(requests, payload=(), decoder=None):
    log = (decoder or _decoder()).block((0, 0, 0), np.array(requests, REQUEST), np.array(payload, np.uint32))
    return log


def test_evenly_spaced_lanes_are_counted_on_from_the_first() -> None:
    rows = _rows([_request(Kind.READ, base=1000, mask=0b1011, warp=2, stride=8)]).rows
    assert rows["thread"].tolist() == [64, 65, 67]
    assert rows["address"].tolist() == [1000, 1008, 1016]
    assert rows["request"].tolist() == [0, 0, 0]


def test_lanes_that_are_not_bring_their_address_and_their_value() -> None:
    payload = [
        9,
        9,
        100,
        1,
        7,
        40,
        0,
        8,
    ]  # two words that belong to another; then address (low, high) and value of each lane
    log = _rows([_request(Kind.WRITE, payload=2, mask=0b11, space=0x80)], payload)
    assert log.rows["address"].tolist() == [100 | 1 << 32, 40]
    assert [int(log.payload[at : at + 4].view(np.uint32)[0]) for at in log.rows["value"].tolist()] == [7, 8]
    assert log.rows["space"].tolist() == [0, 0]


def test_a_wide_store_has_all_its_bytes() -> None:
    values = np.arange(8, dtype=np.float32)
    log = _rows([_request(Kind.WRITE, mask=0b11, stride=16, size=16, space=1)], values.view(np.uint32))
    at = int(log.rows["value"][1])
    assert log.payload[at : at + 16].view(np.float32).tolist() == [4, 5, 6, 7]


def test_what_lanes_say_alike_is_read_once_for_all() -> None:
    loop = np.array([3, -2, 0, 0, 0, 0], np.int64).view(np.uint32)
    log = _rows([_request(Kind.SNAPSHOT, mask=0b111, site=12, space=0x40)], [64, 0, 7, 2, *loop])
    infos = [
        log.payload[at : at + SNAPSHOT_INFO.itemsize].view(SNAPSHOT_INFO)[0]
        for at in log.rows["value"].tolist()
    ]
    assert [info["loops"].tolist()[:2] for info in infos] == [[3, -2]] * 3
    assert infos[0]["count"] == 2


def test_a_hold_names_its_variable_and_its_line() -> None:
    decoder = _decoder(Site(1))
    words = [128, 0, 7, 1, 1, 0, 2, 0, 16, 17, 1, 1, 1, 1]
    log = _rows([_request(Kind.HOLD, base=256, mask=1, site=5, space=0x42, size=1088)], words, decoder)
    decoded = decoder.finish([log])
    info = log.payload[int(log.rows["value"][0]) :][: HOLD_INFO.itemsize].view(HOLD_INFO)[0]
    assert decoded.texts[int(info["text"])] == "As, acc"
    assert (int(info["index"]), info["extents"].tolist()[:2]) == (1, [16, 17])
    assert decoded.sites[int(log.rows["site"][0])].line == 5


def test_an_asynchronous_copy_arrives_at_the_wait_for_its_group() -> None:
    copy = dict(mask=1, space=1, size=4)
    requests = [
        _request(COPY, base=0, payload=0, **copy),
        _request(COMMIT, size=0),
        _request(COPY, base=4, payload=1, **copy),
        _request(COMMIT, size=0),
        _request(WAIT, size=1),
        _request(Kind.READ, base=0, space=1),
        _request(WAIT, size=0),
        _request(Kind.READ, base=4, space=1),
        _request(COPY, base=8, payload=2, **copy),
    ]
    rows = _rows(requests, [1, 2, 3]).rows
    assert [(int(r["kind"]), int(r["address"])) for r in rows] == [
        (Kind.WRITE, 0),
        (Kind.READ, 0),
        (Kind.WRITE, 4),
        (Kind.READ, 4),
    ]


def test_a_copy_has_the_request_of_the_read_it_began_with() -> None:
    def pair(thread, at):
        return [
            _request(Kind.READ, base=at, mask=1 << thread, site=3),
            _request(COPY, base=at, mask=1 << thread, site=3, space=1, payload=0),
        ]

    requests = [*pair(0, 64), *pair(1, 128), *pair(0, 256), _request(WAIT, mask=0b11, size=0)]
    rows = _rows(requests, [5]).rows
    told = [(int(r["thread"]), int(r["address"]), int(r["request"])) for r in rows if r["kind"] == Kind.WRITE]
    assert sorted(told) == [(0, 64, 0), (0, 256, 4), (1, 128, 2)]


def test_the_compilers_error_is_named_at_the_users_line() -> None:
    log = 'h.h(9): error: static assertion failed with "no structs"\n  detected during instantiation at line 14\n'
    assert first_error(log, "my.cu") == "my.cu:14: no structs"
    assert (
        first_error('my.cu(3): error: identifier "x" is undefined\n', "my.cu")
        == 'my.cu:3: identifier "x" is undefined'
    )


def _compiler() -> Compiler:
    folders = [Path("/usr/local/cuda/include")]
    return Compiler(Nvrtc(), "90", tuple(folder for folder in folders if (folder / "cuda_fp16.h").is_file()))


@needs_nvrtc
def test_the_logger_lays_its_structs_out_as_they_are_read() -> None:
    text = (KERNELS / "listen/gpu/logger.cuh").read_text()
    sizes = [("Request", REQUEST), ("Stray", STRAY), ("Config", CONFIG)]
    checks = "\n".join(
        f'static_assert(sizeof({name}) == {dtype.itemsize}, "{name}");' for name, dtype in sizes
    )
    _compiler().compiled(f"{text}\n{checks}", None, (), "ptx", "--relocatable-device-code=true")


_KERNEL = """
__global__ void gemm(const float* A, const float* B, float* C, int n) {
    __shared__ float As[16][16], Bs[16][16];
    float acc = 0;
    HOLD(As, Bs, acc);
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    for (int t = 0; t < n / 16; t++) {
        As[threadIdx.y][threadIdx.x] = A[row * n + t * 16 + threadIdx.x];
        Bs[threadIdx.y][threadIdx.x] = B[(t * 16 + threadIdx.y) * n + column];
        __syncthreads();
        SNAPSHOT(load, t);
        for (int k = 0; k < 16; k++) acc += As[threadIdx.y][k] * Bs[k][threadIdx.x];
        __syncthreads();
        SNAPSHOT(update, t);
    }
    HOLD_AT(C, n, n);
    C[row * n + column] = acc;
}
"""


@needs_nvrtc
def test_untraced_the_machine_code_is_that_of_the_bare_kernel() -> None:
    said = parse_source(f"#include <kernels_in_motion.h>{_KERNEL}", "k.cu")
    bare = parse_source(re.sub(r" *(HOLD|HOLD_AT|SNAPSHOT)\(.*\);", "", f"// bare{_KERNEL}"), "k.cu")
    assert "SNAPSHOT" not in bare.text
    codes = [
        _compiler().compiled(plain_text(source), source, ("gemm",), "cubin")[0] for source in (said, bare)
    ]
    assert codes[0] == codes[1]


@needs_nvrtc
def test_a_gemms_sites_are_the_lines_of_the_file_and_its_accumulator_is_made_of_both_tiles() -> None:
    source = parse_source(f"#include <kernels_in_motion.h>{_KERNEL}", "k.cu")
    code, _ = _compiler().compiled(
        traced_text(source), source, ("gemm",), "ptx", "--relocatable-device-code=true"
    )
    sites = listen(code.decode().rstrip("\0"), _compiler().logger, "k.cu").sites
    assert {site.line for site in sites} == {4, 8, 9, 10, 12, 13, 17}
    loads = {
        line: [n for n, site in enumerate(sites) if site.line == line and site.made_of is None]
        for line in (8, 9, 12)
    }
    (stored,) = [site for site in sites if site.line == 12 and site.made_of is not None]
    assert stored.made_of == tuple(Source(n) for n in loads[12])
    assert len(loads[12]) == 33  # 16 of each tile, and the accumulator itself
    (tile,) = [site for site in sites if site.line == 8 and site.made_of is not None]
    assert tile.made_of == (Source(loads[8][0]),)


@needs_nvrtc
@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        ("float* p = x; HOLD(p);", "k.cu:3: HOLD shows variables, not what a pointer points to: use HOLD_AT"),
        ("struct S { int a; } s; HOLD(s);", "k.cu:3: HOLD shows numbers and arrays of numbers, not structs"),
        ("y[0] = 1;", 'k.cu:3: identifier "y" is undefined'),
    ],
)
def test_what_cannot_be_held_or_compiled_is_said_with_its_line(says: str, sentence: str) -> None:
    source = parse_source(
        f"#include <kernels_in_motion.h>\n__global__ void k(float* x) {{\n{says}\n}}\n", "k.cu"
    )
    with pytest.raises(BackendError) as error:
        _compiler().compiled(traced_text(source), source, ("k",), "ptx", "--relocatable-device-code=true")
    assert str(error.value).startswith(sentence)


@needs_nvrtc
def test_instructions_that_cannot_be_traced_are_refused_with_their_line() -> None:
    text = '__global__ void k(float* x) {\n  asm volatile("wgmma.fence.sync.aligned;");\n}\n'
    source = parse_source(text, "k.cu")
    compiler = Compiler(Nvrtc(), "90a", ())
    code, _ = compiler.compiled(traced_text(source), source, ("k",), "ptx", "--relocatable-device-code=true")
    with pytest.raises(BackendError, match=r"k\.cu:2: warp-group matrix instructions"):
        listen(code.decode().rstrip("\0"), compiler.logger, "k.cu")


@needs_nvrtc
@pytest.mark.parametrize(
    "path", sorted([*KERNELS.glob("gallery/*.cu"), *KERNELS.glob("sources/*.cu")]), ids=lambda p: p.stem
)
def test_every_access_of_our_plain_kernels_has_its_line(path: Path) -> None:
    source = read_source(path)
    if re.search(r"#include <(cuda_fp16|mma|cuda_pipeline)", source.text) and not _compiler()._include:
        pytest.skip("CUDA's own headers are not installed")
    names = tuple(
        function.name + (f"<{', '.join(['4'] * len(function.template))}>" if function.template else "")
        for function in source.functions
    )
    code, _ = _compiler().compiled(
        traced_text(source), source, names, "ptx", "--relocatable-device-code=true"
    )
    sites = listen(code.decode().rstrip("\0"), _compiler().logger, source.name).sites
    assert sites
    assert all(site.line for site in sites)


@needs_nvrtc
def test_the_files_own_header_may_have_host_code_and_shared_variables(tmp_path: Path) -> None:
    (tmp_path / "own.h").write_text(
        '#include <vector>\n#include <cstdio>\nvoid host() { printf(""); }\n'
        "__device__ float twice(float x) { __shared__ float s[32]; s[threadIdx.x] = x; return 2 * s[threadIdx.x]; }\n"
    )
    (tmp_path / "k.cu").write_text('#include "own.h"\n__global__ void k(float* x) { x[0] = twice(x[1]); }\n')
    source = read_source(tmp_path / "k.cu")
    _compiler().compiled(plain_text(source), source, ("k",), "cubin")
    code, _ = _compiler().compiled(
        traced_text(source), source, ("k",), "ptx", "--relocatable-device-code=true"
    )
    assert "kim_hold" in code.decode()
