"""What the golden_*.py share: how a model is recorded, and the file that tests/test_kernels_golden.c reads.

The file: magic "SHOALG2\n", uint32 number of entries, then for each: name[80], uint32 type (0 float64, 1 int32), uint32
count, values; little-endian.  Weights of linear layers are [out,in], of convolutions [out,in,height,width].  Entries:
the inputs (tokens or images, targets; a target of -1 does not count), init.* of parameters and of running statistics
(buffers); logits and eval, the loss in evaluation (with the running statistics instead of the batch's); loss in
training, and grad.* of the parameters; and for the runs "plain" and "clip" of ten AdamW steps on the same batch: losses
and norms of each step, param.* (buffers too) and eval after the last one.

Run as a program it compares two folders of such files: golden_file.py KEPT FRESH.
"""
import os
import struct
import sys
import numpy as np

MAGIC, ENTRY = b"SHOALG2\n", "<80sII"
LR, BETAS, EPS, DECAY, CLIP, STEPS = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0, 10
SAME = 1e-12  # relative to the norm of an entry: another processor sums in another order
NOISE = ".param.h.0.attn.c_attn.bias", ".param.h.1.attn.c_attn.bias"  # see compare


def as_float(x):
    """What a float in the graph holds."""
    return float(np.float32(x))


def save(path, entries):
    with open(path, "wb") as f:
        f.write(MAGIC + struct.pack("<I", len(entries)))
        for name, values in entries.items():
            x = np.asarray(values)
            kind, x = (1, x.astype("<i4")) if x.dtype.kind == "i" else (0, x.astype("<f8"))
            f.write(struct.pack(ENTRY, name.encode(), kind, x.size) + x.tobytes())


def load(path):
    with open(path, "rb") as f:
        data = f.read()
    if data[:8] != MAGIC:
        sys.exit(f"{path} is no file of golden values")
    count, at, entries = struct.unpack_from("<I", data, 8)[0], 12, {}
    for _ in range(count):
        name, kind, n = struct.unpack_from(ENTRY, data, at)
        at += struct.calcsize(ENTRY)
        entries[name.rstrip(b"\0").decode()] = np.frombuffer(data, "<i4" if kind else "<f8", n, at)
        at += n * (4 if kind else 8)
    return entries


def train(forward, start, buffers, clip):
    """Ten steps from the start: losses, norms, the state after them and the loss with it in evaluation."""
    import torch
    p = {name: x.clone().requires_grad_() for name, x in start.items()}
    b = {name: x.clone() for name, x in buffers.items()}
    opt = torch.optim.AdamW([{"params": [x for x in p.values() if x.dim() >= 2], "weight_decay": DECAY},
                             {"params": [x for x in p.values() if x.dim() < 2], "weight_decay": 0}],
                            lr=LR, betas=BETAS, eps=EPS)
    losses, norms = [], []
    for _ in range(STEPS):
        opt.zero_grad()
        loss = forward(p | b, True)[1]
        loss.backward()
        norm = torch.sqrt(sum((x.grad ** 2).sum() for x in p.values()))
        losses.append(loss.item())
        norms.append(norm.item())
        if clip and norm > clip:
            for x in p.values():
                x.grad *= clip / norm
        opt.step()
    with torch.no_grad():
        return losses, norms, p | b, forward(p | b, False)[1].item()


def record(name, inputs, start, buffers, forward):
    """forward(state, training) gives logits and loss, and in training moves the buffers on.

    Writes NAME into the folder named on the command line, usually tests/data."""
    import torch
    torch.set_num_threads(1)
    entries = dict(inputs) | {"init." + key: x for key, x in (start | buffers).items()}
    logits, loss = forward(start | buffers, False)
    entries |= {"logits": logits, "eval": [loss.item()]}
    p = {key: x.clone().requires_grad_() for key, x in start.items()}
    loss = forward(p | {key: x.clone() for key, x in buffers.items()}, True)[1]
    loss.backward()
    entries |= {"loss": [loss.item()]} | {"grad." + key: x.grad for key, x in p.items()}
    for run, clip in (("plain", 0), ("clip", CLIP)):
        losses, norms, after, eval_loss = train(forward, start, buffers, clip)
        if clip and max(norms) <= clip:
            sys.exit(f"{name}: no gradient of this run is clipped")
        entries |= {run + ".losses": losses, run + ".norms": norms, run + ".eval": [eval_loss]}
        entries |= {run + ".param." + key: x.detach() for key, x in after.items()}
    save(os.path.join(sys.argv[1] if len(sys.argv) > 1 else "tests/data", name), entries)
    print(f"{name}: loss {losses[0]:.4f}, after ten steps {losses[-1]:.4f}, in evaluation {eval_loss:.4f}")


def compare(kept, fresh):
    """The largest distance of an entry of two files; they must hold the same ones.

    The keys' third of GPT-2's bias is left out: its gradient is rounding and nothing else (no softmax changes), which
    AdamW turns into steps of full size."""
    a, b = load(kept), load(fresh)
    if {(name, x.size, x.dtype) for name, x in a.items()} != {(name, x.size, x.dtype) for name, x in b.items()}:
        sys.exit(f"{kept} and {fresh} have other entries")
    for name in a:
        if name.endswith(NOISE):
            third = a[name].size // 3
            a[name], b[name] = (np.delete(x[name], np.s_[third:2 * third]) for x in (a, b))
    return max((np.linalg.norm(a[name] - b[name]) / max(np.linalg.norm(a[name]), 1e-300), name) for name in a)


def main():
    kept, fresh = sys.argv[1:]
    names = sorted(x for x in os.listdir(fresh) if x.endswith(".bin"))
    for name in names:
        off, entry = compare(os.path.join(kept, name), os.path.join(fresh, name))
        print(f"{name}: {'the same' if off == 0 else f'{entry} is off by {off:.1e}'}")
        if off > SAME:
            sys.exit(f"more than {SAME}: the kept file is not what PyTorch says")
    if not names:
        sys.exit(f"no golden files in {fresh}")


if __name__ == "__main__":
    main()
