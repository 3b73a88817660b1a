#!/usr/bin/python3
"""Golden values of two tiny ResNets, made by PyTorch in double: tests/data/resnet_tiny.bin and resnet_wide.bin
(golden_file.py says what is in them).

Run as: /usr/bin/python3 tests/golden_resnet.py [FOLDER]

tiny: basic blocks behind the 7x7 stem with its pool.  wide: bottleneck blocks behind the 3x3 stem for small images.
Layers, names and strides are torchvision's (a bottleneck strides in its 3x3); images are not square.
"""
import torch
import torch.nn.functional as F
import golden_file

CLASSES, N = 7, 4
NORM_EPS, MOMENTUM = golden_file.as_float(1e-5), golden_file.as_float(0.1)

torch.set_default_dtype(torch.float64)


class ResNet:
    """Shapes are collected while a forward is only named; the same walk then computes."""

    def __init__(self, width, blocks, bottleneck, small_stem, image):
        self.width, self.blocks, self.bottleneck, self.small_stem = width, blocks, bottleneck, small_stem
        self.weights, self.buffers = {}, {}
        self.start = True
        self.walk(torch.zeros((N, *image)), True)
        self.start = False

    def weight(self, name, shape, around, state):
        if self.start:
            spread = 0.15 if len(shape) == 1 else (2 / torch.Size(shape[1:]).numel()) ** 0.5
            self.weights[name] = (around + spread * torch.randn(shape)).float().double()
            return self.weights[name]
        return state[name]

    def conv(self, x, name, channels, size, stride=1):
        w = self.weight(name + ".weight", (channels, x.shape[1], size, size), 0, self.state)
        return F.conv2d(x, w, stride=stride, padding=size // 2)

    def norm(self, x, name):
        c = (x.shape[1],)
        gain, bias = self.weight(name + ".weight", c, 1, self.state), self.weight(name + ".bias", c, 0, self.state)
        if self.start:
            self.buffers[name + ".running_mean"] = (0.15 * torch.randn(c)).float().double()
            self.buffers[name + ".running_var"] = (0.5 + torch.rand(c)).float().double()
            return x
        return F.batch_norm(x, self.state[name + ".running_mean"], self.state[name + ".running_var"], gain, bias,
                            self.training, MOMENTUM, NORM_EPS)

    def block(self, x, at, width, stride):
        if self.bottleneck:
            y = F.relu(self.norm(self.conv(x, at + "conv1", width, 1), at + "bn1"))
            y = F.relu(self.norm(self.conv(y, at + "conv2", width, 3, stride), at + "bn2"))
            y = self.norm(self.conv(y, at + "conv3", 4 * width, 1), at + "bn3")
        else:
            y = F.relu(self.norm(self.conv(x, at + "conv1", width, 3, stride), at + "bn1"))
            y = self.norm(self.conv(y, at + "conv2", width, 3), at + "bn2")
        if x.shape != y.shape:
            x = self.norm(self.conv(x, at + "downsample.0", y.shape[1], 1, stride), at + "downsample.1")
        return F.relu(x + y)

    def walk(self, x, training, state=None):
        self.state, self.training = state, training
        x = F.relu(self.norm(self.conv(x, "conv1", self.width, *((3, 1) if self.small_stem else (7, 2))), "bn1"))
        if not self.small_stem:
            x = F.max_pool2d(x, 3, 2, 1)
        for stage, count in enumerate(self.blocks):
            for i in range(count):
                stride = 2 if stage > 0 and i == 0 else 1
                x = self.block(x, f"layer{stage + 1}.{i}.", self.width << stage, stride)
        x = x.mean((2, 3))
        return F.linear(x, self.weight("fc.weight", (CLASSES, x.shape[1]), 0, state),
                        self.weight("fc.bias", (CLASSES,), 0, state))


def record(name, seed, image, **net):
    torch.manual_seed(seed)
    model = ResNet(image=image, **net)
    images, targets = torch.randn((N, *image)).float().double(), torch.randint(CLASSES, (N,))

    def forward(state, training):
        logits = model.walk(images, training, state)
        return logits, F.cross_entropy(logits, targets)

    golden_file.record(name, {"images": images, "targets": targets}, model.weights, model.buffers, forward)


record("resnet_tiny.bin", 11, (3, 24, 20), width=8, blocks=(2, 1), bottleneck=False, small_stem=False)
record("resnet_wide.bin", 12, (3, 8, 10), width=4, blocks=(1, 2), bottleneck=True, small_stem=True)
