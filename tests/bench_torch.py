#!/usr/bin/python3
"""Training steps of a GPT-2 in PyTorch on this machine's CPU, at the best settings we know, for tests/bench_compute.c.

    bench_torch.py LAYERS WIDTH HEADS CONTEXT VOCAB BATCH SEQ THREADS PRECISION SECONDS

The same work as ours: tanh-GELU, tied head, AdamW with decoupled decay on matrices, gradients clipped to norm 1.
PRECISION is float32 or bf16 (autocast: matrix products in bf16, the rest and the parameters in float32).
Prints one JSON object: tokens per second as median, slowest and fastest step, and what PyTorch is made of.

What counts as the best: threads set (its default may be one), memory kept between steps by glibc (large blocks are
otherwise unmapped and faulted in again at every step: 1.3 to 1.7 times slower) and on huge pages, gradients dropped
instead of zeroed, all parameters in one call of AdamW, and one pool of threads: the usual OpenBLAS brings a pool of
its own which fights with OpenMP's over the cores, so the variant on OpenMP is loaded where it is installed
(libopenblas0-openmp: 230 tokens/s instead of 152), and elsewhere OpenMP's threads go to sleep early (206).
glibc, OpenBLAS and OpenMP read the environment when they start, hence the re-exec.
"""
import glob
import json
import os
import resource
import sys
import time

SETTINGS = {"MALLOC_MMAP_THRESHOLD_": str(1 << 33), "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
            "MALLOC_TOP_PAD_": str(1 << 30), "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
LEAST_STEPS, DROPPED = 2, 1  # measured at least; before them, which touch the memory

if len(sys.argv) != 11:
    sys.exit(__doc__)
LAYERS, WIDTH, HEADS, CONTEXT, VOCAB, B, T, THREADS = (int(x) for x in sys.argv[1:9])
PRECISION, SECONDS = sys.argv[9], float(sys.argv[10])
one_pool = glob.glob("/usr/lib/*/openblas-openmp")
wanted = SETTINGS | {"OPENBLAS_NUM_THREADS": str(THREADS), "OMP_NUM_THREADS": str(THREADS)} | (
    {"LD_LIBRARY_PATH": one_pool[0]} if one_pool else {"GOMP_SPINCOUNT": "1000"})
if any(os.environ.get(name) != value for name, value in wanted.items()):
    os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | wanted)

import torch  # noqa: E402, only after the re-exec
from torch import nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, mask):
        q, k, v = (z.view(B, T, HEADS, -1).transpose(1, 2).reshape(B * HEADS, T, -1)
                   for z in self.qkv(self.ln_1(x)).split(WIDTH, dim=2))
        scores = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=(WIDTH // HEADS) ** -0.5)
        y = torch.bmm(scores.softmax(-1), v)
        x = x + self.out(y.view(B, HEADS, T, -1).transpose(1, 2).reshape(B, T, WIDTH))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)
        self.register_buffer("mask", torch.full((T, T), float("-inf")).triu(1))

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[:T]
        for block in self.h:
            x = block(x, self.mask)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, VOCAB).float(), targets.view(-1))


def main():
    torch.manual_seed(1)
    torch.set_num_threads(THREADS)
    model = GPT2()
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02)
    opt = torch.optim.AdamW([{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
                             {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0}],
                            lr=1e-4, betas=(0.9, 0.95), eps=1e-8, foreach=True)
    at = torch.arange(B * T).view(B, T)
    tokens, targets = at * 7919 % VOCAB, (at + 1) * 7919 % VOCAB
    took, loss, end = [], 0.0, None
    while len(took) < DROPPED + LEAST_STEPS or time.perf_counter() < end:
        begin = time.perf_counter()
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=PRECISION == "bf16"):
            loss = model(tokens, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        took.append(time.perf_counter() - begin)
        if len(took) == DROPPED:
            end = time.perf_counter() + SECONDS
    took = sorted(took[DROPPED:])
    half = len(took) // 2
    median = took[half] if len(took) % 2 else (took[half - 1] + took[half]) / 2
    made = torch.__config__.show()
    print(json.dumps({
        "precision": PRECISION, "batch": B, "seq": T, "threads": torch.get_num_threads(), "steps": len(took),
        "tokens_per_s": B * T / median, "tokens_per_s_least": B * T / took[-1], "tokens_per_s_most": B * T / took[0],
        "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "loss": loss.item(),
        "torch": torch.__version__, "mkldnn": torch.backends.mkldnn.is_available(),
        "mkldnn_version": next((x.strip(" -") for x in made.splitlines() if "MKL-DNN" in x), "none"),
        "blas": blas(), "capability": next((x.strip(" -") for x in made.splitlines() if "CPU capability" in x), "")}))


def blas():
    """The file of the library that PyTorch multiplies with: Debian's is whatever libblas.so.3 leads to."""
    with open("/proc/self/maps") as f:
        files = {line.split()[-1] for line in f if "blas" in line}
    return sorted(os.path.realpath(x) for x in files)


main()
