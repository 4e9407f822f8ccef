"""Reads tasks of `gpuplan fit --emit sky` with SkyPilot itself and lets its optimizer choose, offline:

    sky_task.py INSTANCES.csv TASK.yaml...

SkyPilot's catalogs are written from INSTANCES.csv (`gpuplan instances --format csv`) into $HOME, so that nothing is
downloaded and nothing rented. Prints each task's first choice; exit 1 with SkyPilot's own message where it refuses one.
"""
import csv
import os
import sys

CLOUDS = ["aws", "azure", "gcp", "lambda", "oci", "paperspace", "runpod", "vast"]
# SkyPilot's names of accelerators (sky/utils/accelerator_registry.py) where they are not gpuplan's in upper case.
ACCELERATORS = {
    "a100-40gb": "A100", "a100-pcie-40gb": "A100", "a100-80gb": "A100-80GB", "a100-pcie-80gb": "A100-80GB",
    "v100-sxm2-16gb": "V100", "v100-sxm2-32gb": "V100-32GB", "v100-pcie-16gb": "V100", "v100-pcie-32gb": "V100-32GB",
    "p100-pcie": "P100", "p100-sxm2": "P100",
}
COLUMNS = ["InstanceType", "AcceleratorName", "AcceleratorCount", "vCPUs", "MemoryGiB", "GpuInfo", "Price",
           "SpotPrice", "Region", "AvailabilityZone"]


def accelerator(gpu, name):
    if name.startswith("a3-megagpu"):
        return "H100-MEGA"
    return ACCELERATORS.get(gpu, gpu.upper())


def rows_of(instance):
    """GCP sells hosts and accelerators apart (facts of its catalog), all others an instance whole."""
    name = instance["instance_type"].split("+")[0]
    region = (instance["region"] if instance["provider"] in ("aws", "azure", "gcp") else "") or "anywhere"
    price = instance["on_demand_usd_per_hour"] or instance["spot_usd_per_hour"] or "1"
    host = [name, "", "", instance["vcpus"] or "4", instance["host_memory_gib"] or "16", "", price,
            instance["spot_usd_per_hour"] or price, region, region + "-a"]
    gpu = accelerator(instance["gpu"], name)
    if instance["provider"] != "gcp":
        host[1], host[2] = gpu, instance["gpu_count"]
        return [host]
    return [host, ["", gpu, instance["gpu_count"], "", "", "", price, price, region, region + "-a"]]


def write_catalogs(instances):
    from sky.skylet import constants  # nothing that reads a catalog

    folder = os.path.join(os.path.expanduser("~/.sky/catalogs"), constants.CATALOG_SCHEMA_VERSION)
    catalogs = {cloud: [] for cloud in CLOUDS}
    with open(instances, newline="", encoding="utf-8") as file:
        for instance in csv.DictReader(file):
            if instance["provider"] in catalogs:
                rows = catalogs[instance["provider"]]
                rows += [row for row in rows_of(instance) if row[:3] not in [known[:3] for known in rows]]
    clouds_of = {}  # of each accelerator
    for cloud, rows in catalogs.items():
        for row in rows:
            if row[1]:
                clouds_of.setdefault(row[1], set()).add(cloud)
    for cloud, rows in catalogs.items():
        os.makedirs(os.path.join(folder, cloud), exist_ok=True)
        with open(os.path.join(folder, cloud, "vms.csv"), "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([COLUMNS] + rows)
        with open(os.path.join(folder, cloud, "images.csv"), "w", encoding="utf-8") as file:
            file.write("Tag,Region,OS,OSVersion,ImageId,CreationDate,BaseImageId\n")
    os.makedirs(os.path.join(folder, "common"), exist_ok=True)
    with open(os.path.join(folder, "common", "accelerators.csv"), "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["AcceleratorName", "Clouds"]] + [[n, sorted(c)] for n, c in clouds_of.items()])
    with open(os.path.join(folder, "aws", "instance_quota_mapping.csv"), "w", encoding="utf-8") as file:
        file.write("InstanceType,OnDemandCode,SpotInstanceCode\n")


def choose(path):
    import sky
    from sky import dag, optimizer

    task = sky.Task.from_yaml(path)
    ways = list(task.resources)
    for resources in ways:
        resources.validate()
    with dag.Dag() as plan:
        plan.add(task)
    optimizer.Optimizer.optimize(plan, quiet=True)
    print(f"{os.path.basename(path)}: {len(ways)} choices, first {task.best_resources}")
    if task.best_resources.instance_type != ways[0].instance_type:
        raise ValueError(f"chosen is {task.best_resources}, not the first, {ways[0]}")


def main():
    os.environ["SKYPILOT_DISABLE_USAGE_COLLECTION"] = "1"
    write_catalogs(sys.argv[1])
    from unittest import mock

    from sky import check
    from sky.utils import registry

    enabled = [registry.CLOUD_REGISTRY.from_str(cloud) for cloud in CLOUDS]
    with mock.patch.object(check, "get_cached_enabled_clouds_or_refresh", lambda *a, **k: enabled):
        refused = 0
        for path in sys.argv[2:]:
            try:
                choose(path)
            except Exception as error:  # whatever SkyPilot throws is what a user would see
                refused += 1
                print(f"{os.path.basename(path)}: {type(error).__name__}: {error}")
    sys.exit(1 if refused else 0)


if __name__ == "__main__":
    main()
