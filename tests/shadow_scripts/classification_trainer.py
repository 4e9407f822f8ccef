"""A classification trainer in the manner of torchvision's reference scripts: options, meters, EMA, mixup, evaluation."""
import argparse
import collections
import time

import torch
import torchvision
from torch import nn
from torch.utils.data import DataLoader, default_collate
from torchvision import transforms
from torchvision.transforms import v2


class Meter:
    """The median and the mean of the last values."""

    def __init__(self, window=20):
        self.values, self.total, self.count = collections.deque(maxlen=window), 0.0, 0

    def update(self, value, n=1):
        self.values.append(value)
        self.total += value * n
        self.count += n

    def __str__(self):
        return "%.4f (%.4f)" % (torch.tensor(list(self.values)).median().item(), self.total / max(self.count, 1))


class MetricLogger:
    def __init__(self):
        self.meters = collections.defaultdict(Meter)

    def update(self, n=1, **values):
        for name, value in values.items():
            self.meters[name].update(value.item() if torch.is_tensor(value) else value, n)

    def log_every(self, loader, every, header):
        started = time.time()
        for i, batch in enumerate(loader):
            yield batch
            if i % every == 0:
                print(header, i, "  ".join("%s: %s" % kv for kv in self.meters.items()),
                      "max mem: %.0f" % (torch.cuda.max_memory_allocated() / 2**20))
        print(header, "total time %.1f s" % (time.time() - started))


class ExponentialMovingAverage(torch.optim.swa_utils.AveragedModel):
    def __init__(self, model, decay, device):
        super().__init__(model, device, lambda average, new, _: decay * average + (1 - decay) * new, use_buffers=True)


def accuracy(output, target, topk):
    """Percent of the samples whose class is among the k likeliest."""
    with torch.inference_mode():
        if target.ndim == 2:
            target = target.max(dim=1)[1]
        _, likeliest = output.topk(max(topk), 1, True, True)
        correct = likeliest.t().eq(target[None])
        return [correct[:k].flatten().sum(dtype=torch.float32) * (100.0 / target.size(0)) for k in topk]


def train_one_epoch(model, ema, criterion, optimizer, loader, device, epoch, args, scaler):
    model.train()
    metrics = MetricLogger()
    for i, (image, target) in enumerate(metrics.log_every(loader, args.print_freq, "epoch [%d]" % epoch)):
        image, target = image.to(device), target.to(device)
        with torch.autocast("cuda", enabled=scaler is not None):
            output = model(image)
            loss = criterion(output, target)
        optimizer.zero_grad()
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), args.clip_grad_norm)
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
        if i % args.model_ema_steps == 0:
            ema.update_parameters(model)
        top1, top5 = accuracy(output, target, (1, 5))
        metrics.update(n=image.shape[0], loss=loss, acc1=top1, acc5=top5, lr=optimizer.param_groups[0]["lr"])


def evaluate(model, criterion, loader, device):
    model.eval()
    metrics = MetricLogger()
    with torch.inference_mode():
        for image, target in metrics.log_every(loader, 100, "test:"):
            image, target = image.to(device, non_blocking=True), target.to(device, non_blocking=True)
            output = model(image)
            top1, top5 = accuracy(output, target, (1, 5))
            metrics.update(n=image.shape[0], loss=criterion(output, target), acc1=top1, acc5=top5)
    return metrics.meters["acc1"].total / metrics.meters["acc1"].count


def parameter_groups(model, decay):
    """Weight decay for everything but the norms."""
    norms = [p for m in model.modules() if isinstance(m, nn.BatchNorm2d) for p in m.parameters()]
    rest = [p for p in model.parameters() if all(p is not n for n in norms)]
    return [{"params": rest, "weight_decay": decay}, {"params": norms, "weight_decay": 0.0}]


def main(args):
    device = torch.device(args.device)
    torch.backends.cudnn.benchmark = False
    transform = transforms.Compose([transforms.RandomResizedCrop(96), transforms.RandomHorizontalFlip(),
                                    transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.25] * 3)])
    train_set = torchvision.datasets.FakeData(48, (3, 112, 112), args.classes, transform)
    test_set = torchvision.datasets.FakeData(20, (3, 96, 96), args.classes, transforms.ToTensor())
    mix = v2.RandomChoice([v2.MixUp(alpha=0.2, num_classes=args.classes), v2.CutMix(num_classes=args.classes)])
    loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, num_workers=args.workers,
                        pin_memory=True, collate_fn=lambda samples: mix(*default_collate(samples)), drop_last=True)
    test_loader = DataLoader(test_set, batch_size=args.batch_size, num_workers=args.workers, pin_memory=True)
    model = torchvision.models.get_model(args.model, weights=None, num_classes=args.classes).to(device)
    criterion = nn.CrossEntropyLoss(label_smoothing=args.label_smoothing)
    optimizer = torch.optim.SGD(parameter_groups(model, 1e-4), lr=args.lr, momentum=0.9, nesterov=True)
    scaler = torch.amp.GradScaler("cuda") if args.amp else None
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [
        torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.01, total_iters=1),
        torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)], milestones=[1])
    ema = ExponentialMovingAverage(model, decay=0.998, device=device)
    for epoch in range(args.epochs):
        train_one_epoch(model, ema, criterion, optimizer, loader, device, epoch, args, scaler)
        schedule.step()
        evaluate(model, criterion, test_loader, device)
        evaluate(ema, criterion, test_loader, device)
    print("finished:", args.model, "peak", torch.cuda.max_memory_allocated())


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--classes", default=20, type=int)
    parser.add_argument("-b", "--batch-size", default=16, type=int)
    parser.add_argument("--epochs", default=2, type=int)
    parser.add_argument("-j", "--workers", default=2, type=int)
    parser.add_argument("--lr", default=0.1, type=float)
    parser.add_argument("--label-smoothing", default=0.1, type=float)
    parser.add_argument("--clip-grad-norm", default=1.0, type=float)
    parser.add_argument("--model-ema-steps", default=2, type=int)
    parser.add_argument("--print-freq", default=1, type=int)
    parser.add_argument("--amp", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main(options())
