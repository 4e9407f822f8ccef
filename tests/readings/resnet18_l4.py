"""ResNet-18 as torchvision's training loop runs it, and its memory recorded: train.py BATCH FILE."""
import sys

import torch
import torchvision

torch.cuda.memory._record_memory_history(max_entries=1_000_000)
batch, file = int(sys.argv[1]), sys.argv[2]
model = torchvision.models.resnet18().cuda()
optimizer = torch.optim.Adam(model.parameters())
criterion = torch.nn.CrossEntropyLoss()
for step in range(4):
    images = torch.randn(batch, 3, 224, 224).cuda()
    labels = torch.zeros(batch, dtype=torch.long).cuda()
    output = model(images)
    loss = criterion(output, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
torch.cuda.memory._dump_snapshot(file)
