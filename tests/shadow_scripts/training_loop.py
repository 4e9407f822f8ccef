"""A plain training loop: DataLoader workers, pinned memory, mixed precision, a scheduler, checkpoints."""
import os
import tempfile

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noise(Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        return torch.randn(3, 32, 32, generator=generator), i % 10


def network():
    return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(inplace=True), nn.MaxPool2d(2),
                         nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(64, 10))


def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    model = network().to(device)
    loader = DataLoader(Noise(), batch_size=16, shuffle=True, num_workers=2, pin_memory=True, persistent_workers=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    scaler = torch.amp.GradScaler("cuda")
    steps = 0
    for epoch in range(2):
        model.train()
        running = torch.zeros((), device=device)
        for images, labels in loader:
            assert images.is_pinned()
            images = images.to(device, non_blocking=True)
            labels = labels.to(device, non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy(model(images), labels)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            running += loss.detach()
            steps += 1
        scheduler.step()
        print("epoch", epoch, "loss", running.item() / len(loader), "lr", scheduler.get_last_lr()[0])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "checkpoint.pt")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()},
                   path)
        state = torch.load(path, map_location="cuda", weights_only=True)
    again = network().to(device)
    again.load_state_dict(state["model"])
    optimizer = torch.optim.SGD(again.parameters(), lr=0.1, momentum=0.9)
    optimizer.load_state_dict(state["optimizer"])
    scaler.load_state_dict(state["scaler"])
    again.eval()
    with torch.inference_mode():
        prediction = again(torch.randn(4, 3, 32, 32, device=device)).argmax(1).cpu()
    assert prediction.shape == (4,) and steps == 12
    assert torch.cuda.max_memory_allocated() > 0
    print("finished:", steps, "steps, peak", torch.cuda.max_memory_allocated())


if __name__ == "__main__":
    main()
