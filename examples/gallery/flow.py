"""Gradient flow of a univariate network

Safran et al. 2022: however wide the network, its direction converges to one with few linear regions. Three moments of
one flow: the function, the data, and a bar for each neuron at its fold.
"""

from regionscope.plot import style
from regionscope_lab import shallow
from regionscope_lab.shallow.plot import flow_frame

teacher = shallow.teacher_from_switches([-0.4, 0.1])
data = shallow.sample(teacher, 20, seed=1)
start = shallow.initial_network(50, sigma_h=1.0, sigma_o=1e-2, seed=2)
flow = shallow.gradient_flow(start, data, shallow.FlowOptions(max_log_loss=500))

figure, axes = style.figure(1, 3, width=10.8, height=3.0)
for ax, moment in zip(axes, (0, len(flow) // 2, len(flow) - 1), strict=True):
    flow_frame(flow, moment, ax=ax, radius=1.0, teacher=teacher)
style.plain_axes(axes)
figure.savefig("flow.png")
left = shallow.effective_regions(flow.network(), radius=1.0).on_inside.count
print(f"Of {shallow.n_linear_regions(start)} linear regions at the start, {left} effective ones are left on (−1, 1).")
