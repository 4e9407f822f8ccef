# For the scripts here: interpreters with PyTorch's CUDA build. They are those that GPUPLAN_TORCH_PYTHON_215, _28, _26 and
# _24 name; otherwise pip installs packages into build-torch/shadow-VERSION. The caller is in the repository's root. _21 and
# _113 are used where they are named: packages() says what to install.

packages() {
  case $1 in
    215)
      echo torch==2.15.0 torchvision==0.29.2 transformers==5.23.0 timm==1.0.31 peft==0.21.2 accelerate==1.15.0 \
        diffusers==0.42.1 onnx==1.23.2 onnxscript==0.7.2
      ;;
    quantized) echo "$(packages 215)" bitsandbytes==0.50.2 torchao==0.18.0 ;;
    trl) echo "$(packages 215)" bitsandbytes==0.50.2 trl==1.16.0 datasets==5.2.0 ;;
    28) echo torch==2.8.0 torchvision==0.23.0 transformers==4.56.1 accelerate==1.10.1 peft==0.17.1 ;;
    26) echo torch==2.6.0 torchvision==0.21.0 transformers==4.48.0 'numpy<2' ;;
    24) echo torch==2.4.1 torchvision==0.19.1 transformers==4.46.3 'numpy<2' ;;
    21) echo torch==2.1.2 torchvision==0.16.2 transformers==4.38.2 timm==0.9.16 'numpy<2' ;;
    113) echo torch==1.13.1 torchvision==0.15.2 transformers==4.38.2 timm==0.9.16 'numpy<2' ;; # the second with --no-deps
  esac
}

# python_with VERSION: sets $python; false, with a $reason, where the packages cannot be had.
python_with() {
  local named=GPUPLAN_TORCH_PYTHON_$1 environment=build-torch/shadow-$1 wanted log
  reason=''
  python=${!named:-$environment/bin/python}
  if [ -n "${!named:-}" ]; then
    "$python" -c 'import torch' 2>/dev/null || reason="$named is $python, which has no torch"
  else
    read -ra wanted < <(packages "$1")
    if [ "$(cat "$environment/packages" 2>/dev/null)" = "${wanted[*]}" ]; then return; fi
    log=$(mktemp)
    if python3 -m venv "$environment" >"$log" 2>&1 &&
      "$python" -m pip install --quiet --retries 1 "${wanted[@]}" >"$log" 2>&1; then
      echo "${wanted[*]}" >"$environment/packages"
    else
      reason="pip cannot install ${wanted[0]}: $(grep -v '^ *$' "$log" | tail -n 1)"
    fi
    rm -f "$log"
  fi
  [ -z "$reason" ]
}
