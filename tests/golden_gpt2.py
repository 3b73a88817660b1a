#!/usr/bin/python3
"""Golden values of a tiny GPT-2, made by PyTorch in double: tests/data/gpt2_tiny.bin.

Run as: /usr/bin/python3 tests/golden_gpt2.py   (Debian's python3-torch 1.13; the file is kept, so nobody needs it to test)

The model is written here a second time, with PyTorch's own layers and automatic differentiation.  The file: magic
"SHOALG1\n", uint32 number of entries, then for each: name[48], uint32 type (0 float64, 1 int32), uint32 count, values;
little-endian.  Weights of linear layers are [out,in].  Entries: tokens, targets, init.*, logits, loss, grad.*, and for the
runs "plain" and "clip" of ten AdamW steps on the same batch: their losses, norms, and param.* after the last one.
"""
import struct
import numpy as np
import torch
import torch.nn.functional as F

LAYERS, WIDTH, HEADS, VOCAB, CONTEXT, B, T = 2, 32, 4, 97, 16, 2, 16
LR, BETAS, EPS, DECAY, CLIP, STEPS = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0, 10
NORM_EPS = float(np.float32(1e-5))  # what a float in the graph holds

torch.manual_seed(1234)
torch.set_default_dtype(torch.float64)


def parameters():
    """Every value random and representable as float32, so that float and double start alike."""
    shapes = {"wte.weight": (VOCAB, WIDTH), "wpe.weight": (CONTEXT, WIDTH)}
    for i in range(LAYERS):
        h = f"h.{i}."
        shapes |= {h + "ln_1.weight": (WIDTH,), h + "ln_1.bias": (WIDTH,),
                   h + "attn.c_attn.weight": (3 * WIDTH, WIDTH), h + "attn.c_attn.bias": (3 * WIDTH,),
                   h + "attn.c_proj.weight": (WIDTH, WIDTH), h + "attn.c_proj.bias": (WIDTH,),
                   h + "ln_2.weight": (WIDTH,), h + "ln_2.bias": (WIDTH,),
                   h + "mlp.c_fc.weight": (4 * WIDTH, WIDTH), h + "mlp.c_fc.bias": (4 * WIDTH,),
                   h + "mlp.c_proj.weight": (WIDTH, 4 * WIDTH), h + "mlp.c_proj.bias": (WIDTH,)}
    shapes |= {"ln_f.weight": (WIDTH,), "ln_f.bias": (WIDTH,)}
    made = {}
    for name, shape in shapes.items():
        x = 0.15 * torch.randn(shape)
        if "ln_" in name and name.endswith("weight"):
            x = x + 1
        made[name] = x.float().double()
    return made


def block(p, h, x):
    y = F.layer_norm(x, (WIDTH,), p[h + "ln_1.weight"], p[h + "ln_1.bias"], NORM_EPS)
    qkv = F.linear(y, p[h + "attn.c_attn.weight"], p[h + "attn.c_attn.bias"])
    q, k, v = (z.view(B, T, HEADS, WIDTH // HEADS).transpose(1, 2) for z in qkv.split(WIDTH, dim=2))
    scores = q @ k.transpose(2, 3) / (WIDTH // HEADS) ** 0.5
    scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
    y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, WIDTH)
    x = x + F.linear(y, p[h + "attn.c_proj.weight"], p[h + "attn.c_proj.bias"])
    y = F.layer_norm(x, (WIDTH,), p[h + "ln_2.weight"], p[h + "ln_2.bias"], NORM_EPS)
    y = F.gelu(F.linear(y, p[h + "mlp.c_fc.weight"], p[h + "mlp.c_fc.bias"]), approximate="tanh")
    return x + F.linear(y, p[h + "mlp.c_proj.weight"], p[h + "mlp.c_proj.bias"])


def forward(p, tokens, targets):
    x = F.embedding(tokens, p["wte.weight"]) + p["wpe.weight"][:T]
    for i in range(LAYERS):
        x = block(p, f"h.{i}.", x)
    x = F.layer_norm(x, (WIDTH,), p["ln_f.weight"], p["ln_f.bias"], NORM_EPS)
    logits = x @ p["wte.weight"].T
    return logits, F.cross_entropy(logits.view(-1, VOCAB), targets.view(-1))


def train(start, tokens, targets, clip):
    p = {name: x.clone().requires_grad_() for name, x in start.items()}
    matrices = [x for x in p.values() if x.dim() >= 2]
    vectors = [x for x in p.values() if x.dim() < 2]
    opt = torch.optim.AdamW([{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0}],
                            lr=LR, betas=BETAS, eps=EPS)
    losses, norms = [], []
    for _ in range(STEPS):
        opt.zero_grad()
        loss = forward(p, tokens, targets)[1]
        loss.backward()
        norm = torch.sqrt(sum((x.grad ** 2).sum() for x in p.values()))
        losses.append(loss.item())
        norms.append(norm.item())
        if clip and norm > clip:
            for x in p.values():
                x.grad *= clip / norm
        opt.step()
    return losses, norms, p


entries = []


def put(name, values):
    x = values.detach().numpy() if isinstance(values, torch.Tensor) else np.array(values)
    kind, x = (1, x.astype("<i4")) if x.dtype.kind == "i" else (0, x.astype("<f8"))
    entries.append(struct.pack("<48sII", name.encode(), kind, x.size) + x.tobytes())


start = parameters()
tokens, targets = torch.randint(VOCAB, (B, T)), torch.randint(VOCAB, (B, T))
p = {name: x.clone().requires_grad_() for name, x in start.items()}
logits, loss = forward(p, tokens, targets)
loss.backward()
put("tokens", tokens)
put("targets", targets)
for name, x in start.items():
    put("init." + name, x)
put("logits", logits)
put("loss", [loss.item()])
for name, x in p.items():
    put("grad." + name, x.grad)
for run, clip in (("plain", 0), ("clip", CLIP)):
    losses, norms, after = train(start, tokens, targets, clip)
    print(run, "losses", losses, "norms", norms)
    put(run + ".losses", losses)
    put(run + ".norms", norms)
    for name, x in after.items():
        put(run + ".param." + name, x)
with open("tests/data/gpt2_tiny.bin", "wb") as f:
    f.write(b"SHOALG1\n" + struct.pack("<I", len(entries)) + b"".join(entries))
