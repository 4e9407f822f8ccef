"""graphs_of_nodes.py gcn|gat|gin|sage: PyTorch Geometric on batches of graphs of different sizes, with pooling."""

import sys

import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GAT, GCN, GIN, GraphSAGE, TopKPooling, global_mean_pool

torch.manual_seed(0)


def graph(nodes):
    edges = torch.randint(nodes, (2, 4 * nodes))
    return Data(x=torch.randn(nodes, 16), edge_index=edges, y=torch.randint(2, (1,)))


kind = {"gcn": GCN, "gat": GAT, "gin": GIN, "sage": GraphSAGE}[sys.argv[1]]
convolutions = kind(16, 64, num_layers=3, out_channels=64).cuda()
pool, head = TopKPooling(64, ratio=0.5).cuda(), torch.nn.Linear(64, 2).cuda()
optimizer = torch.optim.Adam([*convolutions.parameters(), *pool.parameters(), *head.parameters()])
for batch in DataLoader([graph(10 + 7 * i) for i in range(32)], batch_size=8):
    batch = batch.cuda()
    x = convolutions(batch.x, batch.edge_index)
    x, _, _, groups, _, _ = pool(x, batch.edge_index, batch=batch.batch)
    loss = torch.nn.functional.cross_entropy(head(global_mean_pool(x, groups)), batch.y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(x.shape[0])
