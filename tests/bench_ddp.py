#!/usr/bin/python3
"""Steps of PyTorch's DistributedDataParallel over gloo with its fp16 hook, for tests/bench_allreduce.c.

    bench_ddp.py SPEC RANK WORLD HOST:PORT STEPS THREADS [PATH=VALUE ...]

SPEC is a run spec with the builder gpt, of which the sizes are taken (model.*, train.batch, train.seq; PATH=VALUE
changes them).  HOST:PORT is rank 0's; RANK `all` starts every rank here, and port 0 then is a free one.
GLOO_SOCKET_IFNAME names the network interface.  HOOK=none leaves gradients in float32.  The tokens are made up:
times, not losses, are what is measured.  Rank 0 prints a line of key=value; where PyTorch is missing, `none`.
"""
import json
import os
import socket
import sys
import time

if len(sys.argv) < 7:
    sys.exit(__doc__)
with open(sys.argv[1]) as f:
    SPEC = json.load(f)
for change in sys.argv[7:]:
    (part, name), value = change.split("=")[0].split("."), change.split("=")[1]
    SPEC[part][name] = json.loads(value)
WORLD, STEPS, THREADS = int(sys.argv[3]), int(sys.argv[5]), int(sys.argv[6])
HOST, PORT = sys.argv[4].rsplit(":", 1)
M, B, T = SPEC["model"], SPEC["train"]["batch"], SPEC["train"]["seq"]
WIDTH, HEADS, VOCAB = M["width"], M["heads"], M["vocab"]
HOOK = os.environ.get("HOOK", "fp16")
# Memory kept between steps: tests/bench_torch.py tells why.
SETTINGS = {"MALLOC_MMAP_THRESHOLD_": str(1 << 33), "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
            "OMP_NUM_THREADS": str(THREADS), "OPENBLAS_NUM_THREADS": str(THREADS)}
if any(os.environ.get(name) != value for name, value in SETTINGS.items()):
    os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | SETTINGS)


def start_all(port):
    if port == "0":
        with socket.socket() as s:
            s.bind((HOST, 0))
            port = str(s.getsockname()[1])
    for rank in range(1, WORLD):
        if os.fork() == 0:
            return rank, port
    return 0, port


RANK, PORT = start_all(PORT) if sys.argv[2] == "all" else (int(sys.argv[2]), PORT)
try:
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    from torch import nn
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
except ImportError:
    if RANK == 0:
        print("none")
    sys.exit(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x, mask):
        q, k, v = (z.view(B, T, HEADS, -1).transpose(1, 2) for z in self.qkv(self.norms[0](x)).split(WIDTH, dim=2))
        weights = (q @ k.transpose(2, 3) * (WIDTH // HEADS) ** -0.5 + mask).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(B, T, WIDTH))
        return x + self.mlp(self.norms[1](x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCAB, WIDTH), nn.Embedding(M["context"], WIDTH)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(M["layers"])), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        if M.get("tied"):
            self.head.weight = self.tokens.weight
        self.register_buffer("mask", torch.full((T, T), float("-inf")).triu(1))

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places.weight[:T]
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(self.norm(x))


def main():
    torch.manual_seed(1)
    torch.set_num_threads(THREADS)
    dist.init_process_group("gloo", init_method=f"tcp://{HOST}:{PORT}", rank=RANK, world_size=WORLD)
    net = GPT()
    for p in net.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02)
    # The mask is the same everywhere: nothing of it need travel.
    model = nn.parallel.DistributedDataParallel(net, broadcast_buffers=False, gradient_as_bucket_view=True)
    if HOOK == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), eps=1e-8, foreach=True)
    at = torch.arange(B * T).view(B, T) + RANK * B * T
    tokens, targets = at * 7919 % VOCAB, (at + 1) * 7919 % VOCAB
    took, loss = [], 0.0
    for _ in range(STEPS + 1):
        begin = time.perf_counter()
        opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(tokens).view(-1, VOCAB), targets.view(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        took.append(time.perf_counter() - begin)
    took = took[1:]  # in the first step the buckets are made anew
    if RANK == 0:
        n = sum(p.numel() for p in model.parameters())
        sent = n * (2 if HOOK == "fp16" else 4) * 2 * (WORLD - 1) // WORLD
        print(f"bench: ddp steps={STEPS} step_s={sum(took) / STEPS:.4f} loss={loss.item():.4f} bytes_per_step={sent} "
              f"world={WORLD} hook={HOOK} tokens_per_step={WORLD * B * T} parameters={n} torch={torch.__version__}",
              flush=True)
    dist.barrier()
    dist.destroy_process_group()


main()
while sys.argv[2] == "all" and RANK == 0 and WORLD > 1:
    try:
        if os.wait()[1]:
            sys.exit("a rank failed")
    except ChildProcessError:
        break
