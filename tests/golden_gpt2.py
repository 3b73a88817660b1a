#!/usr/bin/python3
"""Golden values of a tiny GPT-2, made by PyTorch in double: tests/data/gpt2_tiny.bin (golden_file.py says what is in it).

Run as: /usr/bin/python3 tests/golden_gpt2.py [FOLDER]   (Debian's python3-torch 1.13; the file is kept, so nobody needs
it to test)

The model is written here a second time, with PyTorch's own layers and automatic differentiation.
"""
import torch
import torch.nn.functional as F
import golden_file

LAYERS, WIDTH, HEADS, VOCAB, CONTEXT, B, T = 2, 32, 4, 97, 16, 2, 16
NORM_EPS = golden_file.as_float(1e-5)

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


def forward(p, training):
    x = F.embedding(tokens, p["wte.weight"]) + p["wpe.weight"][:T]
    for i in range(LAYERS):
        x = block(p, f"h.{i}.", x)
    x = F.layer_norm(x, (WIDTH,), p["ln_f.weight"], p["ln_f.bias"], NORM_EPS)
    logits = x @ p["wte.weight"].T
    return logits, F.cross_entropy(logits.view(-1, VOCAB), targets.view(-1))


start = parameters()
tokens, targets = torch.randint(VOCAB, (B, T)), torch.randint(VOCAB, (B, T))
golden_file.record("gpt2_tiny.bin", {"tokens": tokens, "targets": targets}, start, {}, forward)
