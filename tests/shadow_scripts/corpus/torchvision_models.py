"""torchvision_models.py KIND MODEL [--amp] [--channels-last]: two training steps of one of torchvision's models on random
images, and for detectors an evaluation."""

import argparse

import torch
import torchvision

DEVICE = "cuda"


def classification(name):
    model = torchvision.models.get_model(name, num_classes=100)
    size = 299 if name == "inception_v3" else 224
    images, labels = torch.randn(8, 3, size, size), torch.randint(100, (8,))

    def loss(images, labels):
        output = model(images)
        output = output if torch.is_tensor(output) else output.logits
        return torch.nn.functional.cross_entropy(output, labels)

    return model, (images, labels), loss


def segmentation(name):
    model = torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=21)
    images, labels = torch.randn(2, 3, 256, 256), torch.randint(21, (2, 256, 256))
    return model, (images, labels), lambda x, y: torch.nn.functional.cross_entropy(model(x)["out"], y)


def video(name):
    model = torchvision.models.get_model(name, num_classes=10)
    clips, labels = torch.randn(2, 3, 16, 224, 224), torch.randint(10, (2,))
    return model, (clips, labels), lambda x, y: torch.nn.functional.cross_entropy(model(x), y)


def flow(name):
    model = torchvision.models.get_model(name)
    frames = torch.randn(1, 3, 128, 128), torch.randn(1, 3, 128, 128)
    return model, frames, lambda one, two: sum(part.abs().mean() for part in model(one, two))


def detection(name):
    model = torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=5)
    images = torch.rand(2, 3, 320, 320)
    boxes = torch.tensor([[[10.0, 10, 100, 100], [50, 60, 200, 220]]] * 2)
    labels, masks = torch.tensor([[1, 2]] * 2), torch.zeros(2, 2, 320, 320, dtype=torch.uint8)
    masks[:, :, 60:90, 60:90] = 1
    points = torch.tensor([[[[20.0, 20, 1]] * 17] * 2] * 2)

    def loss(images, boxes, labels, masks, points):
        targets = [
            {"boxes": b, "labels": l, "masks": m, "keypoints": p} for b, l, m, p in zip(boxes, labels, masks, points)
        ]
        return sum(model(list(images), targets).values())

    return model, (images, boxes, labels, masks, points), loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["classification", "segmentation", "video", "flow", "detection"])
    parser.add_argument("model")
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--channels-last", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    model, batch, loss_of = globals()[options.kind](options.model)
    model.to(DEVICE)
    if options.channels_last:
        model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler(DEVICE, enabled=options.amp)
    for _ in range(2):
        batch_on_gpu = [part.to(DEVICE) for part in batch]
        with torch.autocast(DEVICE, torch.float16, enabled=options.amp):
            loss = loss_of(*batch_on_gpu)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    if options.kind == "detection":
        model.eval()
        with torch.no_grad():
            print([len(found["boxes"]) for found in model(list(batch_on_gpu[0]))])


main()
