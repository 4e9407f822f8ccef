"""Values that decide what PyTorch allocates, answered as a GPU would: under a runtime whose kernels do nothing every
tensor reads as zeros or as what its memory held before."""


def count_up_positions():
    """transformers looks for packed sequences in the positions of tokens (masking_utils.find_packed_sequence_indices).
    On a GPU they count up, so nothing is packed. Its operators run on the positions that are there, and its answer is
    that of positions which count up: None, or in transformers 4.56, which does not look, the indices all the same."""
    try:
        import torch
        from transformers import masking_utils
    except ImportError:
        return
    look = masking_utils.find_packed_sequence_indices

    def find_packed_sequence_indices(position_ids):
        found = look(position_ids)
        with torch.device("cpu"):
            counted = torch.arange(position_ids.shape[-1]).expand(position_ids.shape)
            return None if look(counted) is None else found

    masking_utils.find_packed_sequence_indices = find_packed_sequence_indices
