"""The exact surface of a signed distance network

Three small networks learn the signed distance to a torus, two balls and a gyroid. Their zero sets are exact meshes.
"""

import torch

import regionscope as rs
from regionscope import plot
from regionscope.plot import style
from regionscope_lab.zoo import mlp

SHAPES = {
    "torus": lambda x: torch.hypot(x[:, :2].norm(dim=1) - 0.6, x[:, 2]) - 0.25,
    "two balls": lambda x: torch.minimum((x - 0.4).norm(dim=1) - 0.45, (x + 0.4).norm(dim=1) - 0.4),
    "gyroid": lambda x: (torch.sin(3 * x) * torch.cos(3 * x.roll(-1, dims=1))).sum(1) / 4,
}
figure, axes = style.figure(1, 3, width=6.3, height=2.4, projection="3d")
random, models, meshes = torch.Generator().manual_seed(0), {}, {}
for ax, (name, distance) in zip(axes, SHAPES.items(), strict=True):
    models[name] = model = mlp([3, 24, 24, 1], seed=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=800)
    for _ in range(800):
        x = 2 * torch.rand(512, 3, generator=random) - 1
        optimizer.zero_grad()
        (model(x)[:, 0] - distance(x)).square().mean().backward()
        optimizer.step()
        decay.step()
    meshes[name] = mesh = rs.level_set(model, rs.Box.between(-1, 1, (3,)))
    plot.level_set(mesh, ax=ax)
    ax.set_axis_off()
    ax.set_box_aspect(mesh.vertices.amax(0) - mesh.vertices.amin(0), zoom=0.92)  # without axes there is more room
    ax.set_title(f"{name}: {len(mesh):,} faces\nEuler characteristic {mesh.euler}", fontsize="medium", y=1.0)
figure.savefig("level_set.png", bbox_inches="tight", dpi=200)
torus = meshes["torus"]
print(f"The torus is closed and has Euler characteristic {torus.euler}; its area is {torus.area:.3f}.")
