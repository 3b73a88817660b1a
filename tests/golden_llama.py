#!/usr/bin/python3
"""Golden values of a tiny Llama, made by PyTorch in double: tests/data/llama_tiny.bin (golden_file.py says what is in it).

Run as: /usr/bin/python3 tests/golden_llama.py [FOLDER]

RMSNorm, rotary positions in Hugging Face's halves, SwiGLU, two query heads for each key head, a head of its own; every
number that the spec can choose is chosen, and some targets do not count.
"""
import torch
import torch.nn.functional as F
import golden_file

LAYERS, WIDTH, HEADS, KV_HEADS, HIDDEN, VOCAB, B, T = 2, 32, 4, 2, 48, 61, 2, 12
D, THETA, NORM_EPS = WIDTH // HEADS, 500.0, golden_file.as_float(1e-6)

torch.manual_seed(4321)
torch.set_default_dtype(torch.float64)


def parameters():
    shapes = {"model.embed_tokens.weight": (VOCAB, WIDTH)}
    for i in range(LAYERS):
        h = f"model.layers.{i}."
        shapes |= {h + "input_layernorm.weight": (WIDTH,),
                   h + "self_attn.q_proj.weight": (WIDTH, WIDTH), h + "self_attn.k_proj.weight": (KV_HEADS * D, WIDTH),
                   h + "self_attn.v_proj.weight": (KV_HEADS * D, WIDTH), h + "self_attn.o_proj.weight": (WIDTH, WIDTH),
                   h + "post_attention_layernorm.weight": (WIDTH,),
                   h + "mlp.gate_proj.weight": (HIDDEN, WIDTH), h + "mlp.up_proj.weight": (HIDDEN, WIDTH),
                   h + "mlp.down_proj.weight": (WIDTH, HIDDEN)}
    shapes |= {"model.norm.weight": (WIDTH,), "lm_head.weight": (VOCAB, WIDTH)}
    return {name: (0.15 * torch.randn(shape) + (len(shape) == 1)).float().double() for name, shape in shapes.items()}


def norm(x, gain):
    return x * torch.rsqrt((x ** 2).mean(-1, keepdim=True) + NORM_EPS) * gain


def rope(x):
    """x [B,heads,T,D]: the pair (i, i + D/2) is turned by t THETA^(-2i/D)."""
    angle = torch.arange(T)[:, None] * THETA ** (-2 * torch.arange(D // 2) / D)
    a, b = x.split(D // 2, dim=-1)
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def block(p, h, x):
    y = norm(x, p[h + "input_layernorm.weight"])
    q, k, v = (F.linear(y, p[h + f"self_attn.{name}_proj.weight"]).view(B, T, -1, D).transpose(1, 2) for name in "qkv")
    k, v = (z.repeat_interleave(HEADS // KV_HEADS, dim=1) for z in (rope(k), v))
    scores = rope(q) @ k.transpose(2, 3) / D ** 0.5
    scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
    y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, WIDTH)
    x = x + F.linear(y, p[h + "self_attn.o_proj.weight"])
    y = norm(x, p[h + "post_attention_layernorm.weight"])
    gate, up = (F.linear(y, p[h + f"mlp.{name}_proj.weight"]) for name in ("gate", "up"))
    return x + F.linear(F.silu(gate) * up, p[h + "mlp.down_proj.weight"])


def forward(p, training):
    x = F.embedding(tokens, p["model.embed_tokens.weight"])
    for i in range(LAYERS):
        x = block(p, f"model.layers.{i}.", x)
    logits = F.linear(norm(x, p["model.norm.weight"]), p["lm_head.weight"])
    return logits, F.cross_entropy(logits.view(-1, VOCAB), targets.view(-1), ignore_index=-1)


start = parameters()
tokens, targets = torch.randint(VOCAB, (B, T)), torch.randint(VOCAB, (B, T))
targets[0, 3] = targets[1, 10] = -1
golden_file.record("llama_tiny.bin", {"tokens": tokens, "targets": targets}, start, {}, forward)
