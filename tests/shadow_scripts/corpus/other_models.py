"""other_models.py NAME: two training steps of a model from a library of models."""

import sys

import torch

torch.manual_seed(0)
images, few = torch.randn(4, 3, 224, 224), torch.randint(10, (4,))


def timm(name):
    import timm

    return timm.create_model(name, num_classes=10), (images,), few


def segmentation(name):
    import segmentation_models_pytorch as models

    model = getattr(models, name)("resnet34", encoder_weights=None, classes=4)
    return model, (torch.randn(2, 3, 128, 128),), torch.randint(4, (2, 128, 128))


def monai(name):
    import monai.networks.nets as nets

    makers = {
        "unet": lambda: nets.UNet(3, 1, 4, (16, 32, 64, 128), (2, 2, 2), num_res_units=2),
        "unetr": lambda: nets.UNETR(1, 4, (64, 64, 64), hidden_size=192, mlp_dim=384, num_heads=4),
        "segresnet": lambda: nets.SegResNet(3, 8, 1, 4),
    }
    return makers[name](), (torch.randn(1, 1, 64, 64, 64),), torch.randint(4, (1, 64, 64, 64))


def xtransformers(name):
    from x_transformers import Decoder, TransformerWrapper

    how = {"rotary": {"rotary_pos_emb": True}, "alibi": {"alibi_pos_bias": True}, "rms": {"use_rmsnorm": True}}[name]
    layers = Decoder(dim=256, depth=4, heads=4, **how)
    tokens = torch.randint(1000, (2, 256))

    class Flat(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = TransformerWrapper(num_tokens=1000, max_seq_len=256, attn_layers=layers)

        def forward(self, x):
            return self.model(x).flatten(0, 1)

    return Flat(), (tokens,), tokens.flatten()


def vit(name):
    import vit_pytorch

    model = vit_pytorch.ViT(
        image_size=224, patch_size=16, num_classes=10, dim=256, depth=4, heads=4, mlp_dim=512, dropout=0.1
    )
    return model, (images,), few


library, _, name = sys.argv[1].partition(":")
model, inputs, labels = globals()[library](name)
model.cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
for _ in range(2):
    output = model(*[part.cuda() for part in inputs])
    loss = torch.nn.functional.cross_entropy(output, labels.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
