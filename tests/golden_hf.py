#!/usr/bin/env python3
"""Writes tests/data/hf: tiny GPT-2 and Llama models saved by transformers, and what it computes with them.

Needs torch, transformers and safetensors; test_peer_saved.c reads the result and needs none of them.  With the
argument `check FOLDER...` it loads folders that shoal-coordinator export wrote and fails if a weight is missing.
"""
import json
import sys

import torch
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

OUT = "tests/data/hf/"
VOCAB, CONTEXT = 61, 24
COMMON = dict(bos_token_id=0, eos_token_id=0, vocab_size=VOCAB)


def check(folders):
    for folder in folders:
        _, told = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
        if any(told.values()):
            sys.exit(f"{folder}: {told}")
        print(folder, "is read")


def models():
    gpt2 = GPT2Config(n_positions=CONTEXT, n_embd=16, n_layer=2, n_head=4, layer_norm_epsilon=1e-4, **COMMON)
    llama = LlamaConfig(hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=6,
                        num_key_value_heads=2, max_position_embeddings=CONTEXT, rope_theta=500.0, rms_norm_eps=1e-5,
                        **COMMON)
    tied = LlamaConfig(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
                       max_position_embeddings=CONTEXT, tie_word_embeddings=True, **COMMON)
    yield "gpt2", GPT2LMHeadModel(gpt2), torch.float32, "10GB"
    yield "llama", LlamaForCausalLM(llama), torch.bfloat16, "10KB"
    yield "llama-tied", LlamaForCausalLM(tied), torch.float16, "10GB"


def main():
    torch.manual_seed(7)
    tokens = torch.randint(0, VOCAB, (2, CONTEXT + 1))
    golden = {"tokens": tokens.tolist(), "models": {}}
    for name, model, dtype, most in models():
        for p in model.parameters():
            p.data = torch.randn_like(p) * 0.2 + (1 if p.dim() == 1 and p.mean() > 0.5 else 0)
        model.to(dtype).save_pretrained(OUT + name, safe_serialization=True, max_shard_size=most)
        model = AutoModelForCausalLM.from_pretrained(OUT + name).to(torch.float32).eval()
        with torch.no_grad():
            logits = model(tokens[:, :-1]).logits.double()
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), tokens[:, 1:].reshape(-1))
        golden["models"][name] = {"loss": round(loss.item(), 7), "logits": [round(v, 5) for v in logits[1, -1].tolist()]}
    with open(OUT + "golden.json", "w") as f:
        json.dump(golden, f)
        f.write("\n")


check(sys.argv[2:]) if sys.argv[1:2] == ["check"] else main()
