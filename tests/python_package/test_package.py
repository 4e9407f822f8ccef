"""The Python package over the program that GPUPLAN names: python3 tests/python_package/test_package.py. What needs torch is
skipped where there is none."""

import os
import sys
import unittest
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "python"))

import gpuplan

try:
    import torch
except ImportError:
    torch = None

MIB = 1 << 20


class EstimateTest(unittest.TestCase):
    def test_a_zoo_model(self):
        plan = gpuplan.estimate("zoo:resnet50", batch=64, optimizer="adam", gpu="l4")
        self.assertTrue(plan.fits)
        self.assertLess(plan.requested_bytes, plan.peak_bytes)
        self.assertLess(plan.peak_bytes, plan.reserved_bytes)
        self.assertLess(plan.reserved_bytes, plan.device_bytes)
        self.assertLessEqual(plan.device_bytes, plan.at_most_bytes)
        # Adam keeps two numbers for each of 25,557,032 parameters.
        self.assertEqual(plan.to_dict()["bytes"]["optimizer_state"], 2 * 4 * 25557032)
        self.assertGreater(plan.by_category["optimizer_state"], 2 * 4 * 25557032)
        self.assertIn("layer1", plan.by_module)
        self.assertEqual(len(plan.timeline), 12)
        self.assertGreater(plan.step_seconds, 0)
        self.assertIn("resnet50 on l4", repr(plan))
        self.assertIn("<table>", plan._repr_html_())

    def test_what_does_not_fit_is_an_answer(self):
        self.assertFalse(gpuplan.estimate("zoo:resnet50", batch=4096, gpu="l4").fits)
        self.assertIsNone(gpuplan.estimate("zoo:mlp", batch=8).fits)

    def test_options_are_the_programs_flags(self):
        options = gpuplan.program.flags({"weight_decay": True, "seq": 128, "set": {"classes": 10}, "amp": None, "strict": False})
        self.assertEqual(options, ["--weight-decay", "--seq", "128", "--set", "classes=10"])

    def test_errors_keep_their_place(self):
        for options, message, help in (({"model": "zoo:resnet5"}, 'did you mean "resnet50"', "for all built-in models"),
                                       ({"model": "zoo:mlp", "batchh": 3}, 'did you mean "--batch"', "for all flags")):
            with self.assertRaises(gpuplan.GpuplanError) as raised:
                gpuplan.estimate(**options)
            self.assertIn(message, raised.exception.message)
            self.assertIn(help, raised.exception.help)
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "broken.yaml")
        with self.assertRaises(gpuplan.GpuplanError) as raised:
            gpuplan.estimate(path)
        error = raised.exception
        self.assertEqual((error.file, error.line, error.column, error.exit_code), (path, 4, 5, 3))
        self.assertIn("^", str(error))

    @unittest.skipIf(torch is not None, "there is torch")
    def test_without_torch(self):
        for call in (lambda: gpuplan.estimate(object(), 3), lambda: gpuplan.export):
            self.assertRaisesRegex(gpuplan.GpuplanError, "needs torch", call)

    def test_the_largest_batch_fits_and_one_more_does_not(self):
        most = gpuplan.max_batch("zoo:resnet50", gpu="l4", optimizer="adam")
        self.assertTrue(gpuplan.estimate("zoo:resnet50", batch=most, optimizer="adam", gpu="l4").fits)
        self.assertFalse(gpuplan.estimate("zoo:resnet50", batch=most + 1, optimizer="adam", gpu="l4").fits)

    def test_a_sweep_has_a_row_for_each_combination(self):
        rows = gpuplan.sweep("zoo:mlp", batch=[8, 16], precision=["fp32", "amp-bf16"], gpu="l4")
        self.assertEqual([(row["over"]["batch"], row.get("amp")) for row in rows], [("8", None), ("16", None), ("8", "bf16"), ("16", "bf16")])

    def test_a_difference(self):
        totals = gpuplan.diff("zoo:resnet18", "zoo:resnet34", batch=8)["totals"]
        self.assertEqual(totals[0]["delta"], totals[0]["now"] - totals[0]["base"])


@unittest.skipIf(torch is None, "no torch")
class ModuleTest(unittest.TestCase):
    def setUp(self):
        self.model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
        self.batch = torch.zeros(64, 3, 32, 32), torch.zeros(64, dtype=torch.int64)

    def loss(self, output, batch):
        return torch.nn.functional.cross_entropy(output, batch[1])

    def test_a_module_is_what_its_spec_is(self):
        plan = gpuplan.estimate(self.model, self.batch, loss=self.loss, optimizer="adam", gpu="l4")
        parameters = 3072 * 512 + 512 + 512 * 10 + 10
        self.assertEqual(plan.to_dict()["bytes"]["parameters"], 4 * parameters)
        self.assertEqual(plan.to_dict()["run"]["batch"], 64)

    def test_an_optimizer_is_taken_as_it_is(self):
        made = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
        asked = gpuplan.estimate(self.model, self.batch, loss=self.loss, optimizer=made, gpu="l4")
        named = gpuplan.estimate(self.model, self.batch, loss=self.loss, optimizer="sgd_momentum", weight_decay=True, gpu="l4")
        self.assertEqual(asked.peak_bytes, named.peak_bytes)
        self.assertGreater(asked.peak_bytes, gpuplan.estimate(self.model, self.batch, loss=self.loss, gpu="l4").peak_bytes)

    def test_another_librarys_optimizer_is_not_planned_as_its_namesake(self):
        class Renamed(torch.optim.AdamW):
            pass

        class Adam(torch.optim.Adam):
            def step(self, closure=None):
                return super().step(closure)

        from gpuplan.modules import optimizer_flags

        self.assertEqual(optimizer_flags(Renamed(self.model.parameters()))["optimizer"], "adamw")
        if hasattr(torch.optim, "Adafactor"):
            self.assertEqual(optimizer_flags(torch.optim.Adafactor(self.model.parameters()))["optimizer"], "adafactor")
        with self.assertRaisesRegex(gpuplan.GpuplanError, "Adam is neither an optimizer of torch.optim nor of bitsandbytes"):
            optimizer_flags(Adam(self.model.parameters()))

    def test_what_a_plan_has_no_flag_for_is_warned_of(self):
        partly = torch.optim.Adam(self.model[1].parameters(), maximize=True)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            gpuplan.estimate(self.model, self.batch, loss=self.loss, optimizer=partly)
        words = " ".join(str(warning.message) for warning in told)
        self.assertIn("maximize=True", words)
        self.assertIn("lacks 2 of the model's 4 parameters", words)

    def test_weights_of_half_precision(self):
        plan = gpuplan.estimate(self.model.to(torch.bfloat16), self.batch[0].to(torch.bfloat16), mode="infer", gpu="l4")
        self.assertEqual(plan.to_dict()["run"]["precision"], "bf16")

    def test_what_pytorchs_issue_asks_for(self):
        estimate = gpuplan.estimate_memory(self.model, self.batch[0], optimizer=torch.optim.Adam(self.model.parameters()))
        self.assertAlmostEqual(estimate.optimizer_mb, 2 * estimate.params_mb)
        self.assertTrue(estimate.fits(device="l4"))
        self.assertFalse(estimate.fits(device="500 MiB"))
        if not torch.cuda.is_available():
            self.assertRaisesRegex(gpuplan.GpuplanError, "no CUDA device 0", estimate.fits, device=0)

    def test_the_rules_are_those_of_the_installed_pytorch(self):
        planned = gpuplan.estimate(self.model, self.batch[0], mode="infer").to_dict()["run"]["pytorch"]
        self.assertEqual(planned.split("."), torch.__version__.split(".")[:2])

    def test_wrong_input(self):
        half = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8, device="meta"))
        for model, batch, options, message in (
                (self.model, self.batch, {"loss": lambda output, batch: (output, 1)}, "returned a tuple"),
                (self.model, self.batch, {"loss": lambda output, batch: output}, "returned a tensor with 2 dimensions"),
                (self.model, 64, {}, "needs an example batch"),
                (half, torch.zeros(4, 8), {}, "lie on cpu and meta"),
                (object(), self.batch, {}, "is of type object, expected a torch.nn.Module"),
                ("zoo:mlp", 4, {"loss": self.loss}, "are a torch.nn.Module's")):
            with self.assertRaisesRegex(gpuplan.GpuplanError, message):
                gpuplan.estimate(model, batch, **options)


class BitsandbytesTest(unittest.TestCase):
    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_its_optimizers_are_called_as_the_program_calls_them(self):
        from types import SimpleNamespace

        from gpuplan.modules import optimizer_flags

        def named(cls, bits, paged):
            made = type(cls, (), {"__module__": "bitsandbytes.optim.adamw"})()
            made.is_paged, made.args = paged, SimpleNamespace(optim_bits=bits)
            return optimizer_flags(made)["optimizer"]

        self.assertEqual(named("AdamW", 8, False), "adamw8bit")  # transformers' optim="adamw_bnb_8bit"
        self.assertEqual(named("AdamW", 8, True), "paged_adamw8bit")
        self.assertEqual(named("PagedAdamW32bit", 32, True), "paged_adamw_bnb")
        self.assertEqual(named("Lion8bit", 8, False), "lion8bit")


class Lit(torch.nn.Module if torch else object):
    """As a LightningModule: it trains itself by these two methods."""

    def __init__(self, model, optimizers=None):
        super().__init__()
        self.model, self.optimizers = model, optimizers

    def training_step(self, batch, index):
        images, labels = batch
        return {"loss": torch.nn.functional.cross_entropy(self.model(images), labels)}

    def configure_optimizers(self):
        made = torch.optim.AdamW(self.parameters())
        return self.optimizers(made) if self.optimizers else made


class LightningTrainer:
    """What Lightning's Trainer says of its settings."""

    lightning_module, precision, accumulate_grad_batches, gradient_clip_val, num_devices, num_nodes = None, "bf16-mixed", 4, 1.0, 1, 1


@unittest.skipIf(torch is None, "no torch")
class TrainerTest(unittest.TestCase):
    setUp, loss = ModuleTest.setUp, ModuleTest.loss

    def test_a_lightning_module_trains_itself(self):
        plain = gpuplan.estimate(self.model, self.batch, loss=self.loss, optimizer="adamw", like="lightning", gpu="l4")
        self.assertEqual(gpuplan.estimate(Lit(self.model), self.batch, gpu="l4").peak_bytes, plain.peak_bytes)
        for form in (lambda made: [made], lambda made: {"optimizer": made}, lambda made: ([made], [])):
            self.assertEqual(gpuplan.estimate(Lit(self.model, form), self.batch, gpu="l4").peak_bytes, plain.peak_bytes)
        with self.assertRaisesRegex(gpuplan.GpuplanError, "returns 2 optimizers"):
            gpuplan.estimate(Lit(self.model, lambda made: [made, made]), self.batch)

    def test_lightnings_trainer_adds_its_settings(self):
        trainer = LightningTrainer()
        with self.assertRaisesRegex(gpuplan.GpuplanError, "no module yet"):
            gpuplan.estimate(trainer, self.batch)
        trainer.lightning_module = Lit(self.model)
        run = gpuplan.estimate(trainer, self.batch, gpu="l4").to_dict()["run"]
        self.assertEqual((run["amp"], run["micro_batches"], run["batch"], run["clip_grad_norm"]), ("bf16", 4, 256, True))
        trainer.precision = "transformer-engine"
        with self.assertRaisesRegex(gpuplan.GpuplanError, "precision is transformer-engine"):
            gpuplan.estimate(trainer, self.batch)
        trainer.num_devices = 2
        with self.assertRaisesRegex(gpuplan.GpuplanError, "has 2 devices"):
            gpuplan.estimate(trainer, self.batch)


if __name__ == "__main__":
    unittest.main()
