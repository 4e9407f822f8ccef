"""GaLore's and APOLLO's optimizers as their README files make them: matrices have options of their own."""


def groups(parameters, **options):
    matrices = [p for name, p in parameters if p.dim() == 2 and ("attn" in name or "mlp" in name)]
    chosen = {id(p) for p in matrices}
    return [{"params": [p for _, p in parameters if id(p) not in chosen]}, {"params": matrices, **options}]


def galore(parameters, rank=32, proj_type="std"):
    import galore_torch

    return galore_torch.GaLoreAdamW(groups(parameters, rank=rank, update_proj_gap=200, scale=0.25, proj_type=proj_type), lr=0.01)


def apollo(parameters, rank=32):
    import apollo_torch

    options = {"rank": rank, "proj": "random", "scale_type": "channel", "scale": 1, "update_proj_gap": 200, "proj_type": "std"}
    return apollo_torch.APOLLOAdamW(groups(parameters, **options), lr=0.01)
