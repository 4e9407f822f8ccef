"""Small models that combine layers in unusual ways, written as PyTorch code.

Each class is the twin of tests/shadow/models/nasty_NAME.yaml. tests/shadow/results/*/nasty_NAME.json is what PyTorch
allocates for it. A value that the spec no longer names is deleted here: in a spec a name ends with its last use, in
Python with the function. CASES is read by the program that records a step under a CUDA runtime without a device:
MODELS[name] = (model, inputs of a batch size, loss).
"""
import torch
import torch.nn.functional as F
from torch import nn
from torchvision.ops import StochasticDepth


class Chain(nn.Module):
    """`x = layer(x)` for each; unlike nn.Sequential it is the model's own forward."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def mlp_no_bias():
    return Chain(nn.Linear(784, 512, bias=False), nn.Tanh(), nn.Linear(512, 300, bias=False), nn.ELU(inplace=True),
                 nn.BatchNorm1d(300, affine=False), nn.LeakyReLU(), nn.Dropout(0.0), nn.Linear(300, 10))


class Sequence(nn.Module):
    """Linear on [N, T, C]."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 128)
        self.b = nn.Linear(128, 128, bias=False)
        self.c = nn.Linear(128, 33)

    def forward(self, x):
        x = F.gelu(self.a(x))
        x = torch.sigmoid(self.b(x))
        x = F.softmax(x, dim=-1)
        x = self.c(x)
        return x.mean(1)


def conv1d():
    return Chain(nn.Conv1d(4, 32, 7, stride=2, padding=3), nn.BatchNorm1d(32), nn.ReLU(inplace=True),
                 nn.Conv1d(32, 64, 5, padding="same"), nn.Hardswish(inplace=True),
                 nn.Conv1d(64, 64, 4, padding="same", groups=4), nn.SiLU(), nn.ConvTranspose1d(64, 16, 4, stride=2),
                 nn.Conv1d(16, 5, 1), Function(lambda x: x.mean(2)))


def decoder():
    return Chain(nn.Linear(64, 2048), nn.Unflatten(1, (128, 4, 4)), nn.ConvTranspose2d(128, 64, 4, stride=2, padding=1),
                 nn.BatchNorm2d(64), nn.ReLU(inplace=True),
                 nn.ConvTranspose2d(64, 32, 3, stride=2, padding=1, output_padding=1, groups=2), nn.ELU(),
                 nn.ConvTranspose2d(32, 3, 4, 2, 1, bias=False), nn.Tanh())


def paddings():
    return Chain(nn.Conv2d(3, 16, 3, padding="same"), nn.Conv2d(16, 32, (3, 5), padding=(0, 2), dilation=(2, 1), groups=4),
                 nn.Conv2d(32, 32, 4, padding="same", bias=False), nn.Conv2d(32, 32, 3, groups=32, padding=1), nn.ReLU6(),
                 nn.MaxPool2d(3, 2, ceil_mode=True), nn.AvgPool2d(2, ceil_mode=True),
                 nn.Conv2d(32, 64, (1, 3), stride=(2, 1), padding=(0, 1)), nn.MaxPool2d(2, 1, dilation=2),
                 nn.AdaptiveAvgPool2d(7), nn.Flatten(), nn.Linear(3136, 10))


def activations():
    return Chain(nn.Conv2d(3, 24, 3, padding=1), nn.SiLU(inplace=True), nn.Conv2d(24, 24, 1), nn.LeakyReLU(inplace=True),
                 nn.Conv2d(24, 24, 1), nn.Hardswish(inplace=True), nn.BatchNorm2d(24), nn.ReLU6(inplace=True),
                 nn.Hardsigmoid(inplace=True), nn.ELU(inplace=True), nn.Sigmoid(), nn.Tanh(), nn.GELU(), nn.Softmax(dim=1),
                 nn.Hardsigmoid(), nn.Hardswish(), nn.Dropout(0.3, inplace=True), nn.ReLU(inplace=True),
                 nn.Conv2d(24, 7, 1), nn.LogSoftmax(dim=1))


class Residuals(nn.Module):
    """In place on a residual's own input, nested, with and without a sum in place."""

    def __init__(self, c=16):
        super().__init__()
        self.stem = nn.Conv2d(3, c, 3, padding=1)
        self.convs = nn.ModuleList(nn.Conv2d(c, c, 3, padding=1, bias=i % 2 == 0) for i in range(5))
        self.norm = nn.BatchNorm2d(c)
        self.head = nn.Linear(c, 10)

    def forward(self, x):
        x = self.stem(x)
        y = self.convs[0](F.relu_(x))        # x itself is changed
        x = x + y
        del y
        y = self.convs[1](x)
        y = F.relu(y)
        z = self.convs[2](y)
        z += y
        del y
        y = F.silu(z)
        del z
        x = x + y
        del y
        x = F.relu_(x)
        y = self.norm(self.convs[3](x))
        y += self.convs[4](x)
        x = F.relu(y)
        del y
        x = F.adaptive_avg_pool2d(x, 1)
        x = torch.flatten(x, 1)
        return self.head(x)


class Gates(nn.Module):
    """Values that are read three times, products of branches."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.gate = nn.Conv2d(16, 16, 1)
        self.left = nn.Conv2d(16, 16, 1)
        self.right = nn.Conv2d(16, 16, 3, padding=1)
        self.m0 = nn.Conv2d(48, 16, 1)
        self.m1 = nn.Conv2d(48, 16, 1, bias=False)
        self.out = nn.Conv2d(16, 4, 1)

    def forward(self, x):
        a = self.stem(x)
        g = torch.sigmoid(self.gate(a))
        b = a * g
        del g
        c = a * torch.sigmoid(a)
        x = torch.cat([a, b, c], dim=1)
        del a, b, c
        x = self.m0(x) * self.m1(x)
        x = self.left(x) + F.relu(self.right(x)) + x
        x = x * x
        x = x - 1.5
        x = x / 2.0
        return self.out(x)


class SqueezeExcite(nn.Module):
    """Broadcast products and sums with parameters and a buffer."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.norm = nn.BatchNorm2d(32)
        self.fc1 = nn.Conv2d(32, 8, 1)
        self.fc2 = nn.Conv2d(8, 32, 1)
        self.gamma = nn.Parameter(torch.ones(32, 1, 1))
        self.position = nn.Parameter(torch.zeros(1, 32, 24, 24))
        self.register_buffer("mask", torch.ones(24, 24))
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = F.silu(self.norm(self.stem(x)), inplace=True)
        s = F.adaptive_avg_pool2d(x, 1)
        s = F.relu(self.fc1(s), inplace=True)
        s = torch.sigmoid(self.fc2(s))
        x = x * s
        del s
        x = x * self.gamma
        x = x + self.position
        x = x * self.mask
        x = x.mean((2, 3))
        return self.head(x)


class Splits(nn.Module):
    """Parts that nobody reads, joined parts, differences and quotients."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 48, 3, padding=1)
        self.a = nn.Conv2d(16, 16, 3, padding=1)
        self.b = nn.Conv2d(12, 16, 1)
        self.head = nn.Conv2d(48, 6, 1)

    def forward(self, x):
        x = self.stem(x)
        first, second, _ = x.chunk(3, dim=1)
        del x, _
        y = self.a(first)
        d = y - second
        del second
        e = first / y.sigmoid()
        del first
        x = torch.cat([y, d, e], dim=1)
        del y, d, e
        parts = x.split([36, 12], dim=1)
        del x
        z = self.b(parts[1])
        del parts
        x = torch.cat([z, z, z], dim=1)
        del z
        return self.head(x)


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.n1 = nn.BatchNorm2d(16)
        self.c2 = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.c3 = nn.Conv2d(32, 64, 3, stride=2, padding=1)
        self.c4 = nn.Conv2d(64, 32, 1)
        self.c5 = nn.Conv2d(64, 16, 1)
        self.head = nn.Conv2d(32, 5, 1)

    def forward(self, x):
        s1 = F.relu_(self.n1(self.c1(x)))
        s2 = F.leaky_relu(self.c2(s1))
        x = F.elu(self.c3(s2))
        x = F.interpolate(self.c4(x), scale_factor=2, mode="nearest")
        x = torch.cat([s2, x], 1)
        del s2
        x = F.interpolate(self.c5(x), scale_factor=2, mode="bilinear", align_corners=False)
        x = torch.cat([x, s1], 1)
        del s1
        return self.head(x)


class TiedLanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(5000, 96)
        self.position = nn.Parameter(torch.zeros(128, 96))
        self.fc1 = nn.Linear(96, 256)
        self.fc2 = nn.Linear(256, 96)

    def forward(self, ids):
        x = self.emb(ids)
        x = x + self.position
        y = F.gelu(self.fc1(x))
        y = self.fc2(y)
        x = x + y
        del y
        x = F.linear(x, self.emb.weight)
        return x.view(-1, 5000)


class Frozen(nn.Module):
    """A stem, a middle or both without gradients."""

    def __init__(self, stem, middle):
        super().__init__()
        self.c1 = nn.Conv2d(3, 16, 3, padding=1)
        self.n1 = nn.BatchNorm2d(16)
        self.c2 = nn.Conv2d(16, 32, 3, padding=1)
        self.n2 = nn.BatchNorm2d(32)
        self.fc0 = nn.Linear(32, 64)
        self.fc1 = nn.Linear(64, 64, bias=False)
        self.fc = nn.Linear(64, 10)
        for layer in [self.c1, self.n1] * stem + [self.c2, self.n2, self.fc0, self.fc1] * middle:
            layer.requires_grad_(False)

    def forward(self, x):
        x = self.n1(self.c1(x))
        x = F.relu_(x)
        x = self.n2(self.c2(x))
        x = F.silu(x)
        x = F.max_pool2d(x, 2)
        x = x.mean([2, 3])
        x = torch.tanh(self.fc0(x))
        x = F.relu(self.fc1(x))
        return self.fc(x)


def batch_norm_1d():
    return Chain(nn.Linear(32, 200), nn.BatchNorm1d(200), nn.ReLU(), nn.BatchNorm1d(200, affine=False), nn.Linear(200, 200),
                 nn.BatchNorm1d(200, track_running_stats=False), nn.BatchNorm1d(200, eps=1e-6), nn.Sigmoid(), nn.Linear(200, 3))


def batch_norm_2d():
    return Chain(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16, affine=False), nn.Conv2d(16, 16, 3),
                 nn.BatchNorm2d(16, track_running_stats=False), nn.Conv2d(16, 16, 3), nn.BatchNorm2d(16, eps=1e-6),
                 nn.Conv2d(16, 16, 3), nn.BatchNorm2d(16, affine=False, track_running_stats=False), nn.ReLU(inplace=True),
                 nn.AdaptiveAvgPool2d((3, 5)), nn.Flatten(), nn.Linear(240, 10))


class Stochastic(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.c1 = nn.Conv2d(16, 16, 3, padding=1)
        self.d1 = StochasticDepth(0.2, "row")
        self.c2 = nn.Conv2d(16, 16, 3, padding=1)
        self.d2 = StochasticDepth(0.2, "batch")
        self.d3 = nn.Dropout2d(0.2)
        self.c3 = nn.Conv2d(16, 16, 1)
        self.d4 = nn.Dropout(0.5, inplace=True)
        self.d5 = nn.Dropout(0.5)
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        x = self.stem(x)
        x = x + self.d1(self.c1(x))
        y = self.d2(self.c2(x))
        y += x
        x = self.d3(y)
        del y
        x = self.d4(self.c3(x))
        x = x.sum((2, 3))
        x = self.d5(x)
        return self.fc(x)


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 8, 5)
        self.f1 = nn.Linear(1152, 64)
        self.f2 = nn.Linear(20, 64)
        self.fc = nn.Linear(192, 10)

    def forward(self, image, vector):
        a = F.max_pool2d(F.relu(self.c1(image)), 2)
        a = self.f1(torch.flatten(a, 1))
        b = torch.tanh(self.f2(vector))
        c = a * b
        x = torch.cat([a, b, c], 1)
        del a, b, c
        return self.fc(x)


class Numbers(nn.Module):
    """A deep multilayer perceptron with reused values and numbers."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(100, 700)
        self.b = nn.Linear(700, 700, bias=False)
        self.c = nn.Linear(700, 100)

    def forward(self, x):
        h = F.relu(self.a(x))
        y = h * torch.sigmoid(self.b(h))
        y = y + h
        del h
        y = y * 0.5
        y = self.c(y)
        y = y - x
        return y / (y + 3.0)


class Dense(nn.Module):
    """Layers that read all layers before them."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.pairs = nn.ModuleList(
            nn.ModuleList((nn.BatchNorm2d(16 + 8 * i), nn.Conv2d(16 + 8 * i, 8, 3, padding=1, bias=False))) for i in range(3))
        self.head = nn.Linear(40, 10)

    def forward(self, x):
        x = self.stem(x)
        y = self.pairs[0][1](F.relu_(self.pairs[0][0](x)))
        x = torch.cat([x, y], 1)
        del y
        y = self.pairs[1][1](F.relu(self.pairs[1][0](x)))
        x = torch.cat([x, y], 1)
        del y
        y = self.pairs[2][1](F.silu(self.pairs[2][0](x), inplace=True))
        x = torch.cat([x, y], 1)
        del y
        x = F.avg_pool2d(x, 2)
        x = F.relu_(x)
        x = F.adaptive_avg_pool2d(x, 1)
        return self.head(x.flatten(1))


def image(channels, size, *label):
    """An image and labels: a class, or one a pixel when `label` gives the size."""
    return lambda b: (torch.zeros(b, channels, size, size), torch.zeros(b, *label, dtype=torch.int64))


def regression(size, target):
    return lambda b: (torch.zeros(b, *size), torch.zeros(b, *target))


cross_entropy = F.cross_entropy
MODELS = {
    "mlp_no_bias": (mlp_no_bias, 96, lambda b: (torch.zeros(b, 784), torch.zeros(b, dtype=torch.int64)),
                    lambda y, t: F.cross_entropy(y, t, label_smoothing=0.1)),
    "sequence": (Sequence, 32, regression((50, 64), (33,)), F.mse_loss),
    "conv1d": (conv1d, 16, regression((4, 1000), (5,)), F.l1_loss),
    "decoder": (decoder, 24, regression((64,), (3, 32, 32)), F.mse_loss),
    "paddings": (paddings, 6, image(3, 65), cross_entropy),
    "activations": (activations, 4, image(3, 40, 40, 40), F.nll_loss),
    "residuals": (Residuals, 8, image(3, 33), cross_entropy),
    "gates": (Gates, 7, lambda b: (torch.zeros(b, 3, 40, 40), torch.zeros(b, 4, 40, 40)), F.binary_cross_entropy_with_logits),
    "squeeze_excite": (SqueezeExcite, 10, image(3, 24), cross_entropy),
    "splits": (Splits, 5, image(3, 30, 30, 30), cross_entropy),
    "segmenter": (Segmenter, 3, image(3, 64, 64, 64), lambda y, t: F.cross_entropy(y, t, label_smoothing=0.2)),
    "tied": (TiedLanguageModel, 40,
             lambda b: (torch.zeros(b, 128, dtype=torch.int64), torch.zeros(b * 128, dtype=torch.int64)), cross_entropy),
    "frozen_stem": (lambda: Frozen(True, False), 9, image(3, 32), cross_entropy),
    "frozen_middle": (lambda: Frozen(False, True), 9, image(3, 32), cross_entropy),
    "frozen_both": (lambda: Frozen(True, True), 9, image(3, 32), cross_entropy),
    "batch_norm_1d": (batch_norm_1d, 9000, regression((32,), (3,)), F.binary_cross_entropy_with_logits),
    "batch_norm_2d": (batch_norm_2d, 6, image(3, 40), cross_entropy),
    "stochastic": (Stochastic, 12, image(3, 28), cross_entropy),
    "two_inputs": (TwoInputs, 50,
                   lambda b: (torch.zeros(b, 1, 28, 28), torch.zeros(b, 20), torch.zeros(b, dtype=torch.int64)), cross_entropy),
    "numbers": (Numbers, 300, regression((100,), (100,)), F.smooth_l1_loss),
    "dense": (Dense, 8, image(3, 30), cross_entropy),
}
