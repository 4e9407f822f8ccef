#!/usr/bin/env bash
# gpuplan mcp: asked by the reference client of the Model Context Protocol, which pip installs, and by hand with what no
# client sends.
set -uo pipefail
cd "$(dirname "$0")/../.."
gpuplan=$(realpath "${GPUPLAN:-build/gpuplan}")
[ -x "$gpuplan" ] || { echo "no $gpuplan: build it first"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
# ask MESSAGE PATTERN
ask() {
  printf '%s\n' "$1" | "$gpuplan" mcp >"$work/out" 2>"$work/err"
  grep -qE -- "$2" "$work/out" || { echo "FAIL  $1: no '$2' in $(cat "$work/out" "$work/err")"; status=1; }
}
ask 'nonsense' '"code":-32700'
ask '[1]' '"code":-32600'
ask '{"jsonrpc":"2.0","id":1,"method":"resources/list"}' '"id":1.*"code":-32601'
ask '{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"rm"}}' '"id":"a".*"code":-32602.*no tool'
ask '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}' '"code":-32602'
ask '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"1.0"}}' '"protocolVersion":"2025-06-18"'
ask '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"plan","arguments":{"model":"zoo:resnet5"}}}' 'did you mean.*"isError":true'
call() { ask '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"plan","arguments":'"$1"'}}' '"code":-32602.*'"$2"; }
call '[]' 'arguments: expected an object'
call '{"model":"zoo:mlp","bacth":8}' 'no argument .*did you mean .*batch'
call '{"model":"zoo:mlp","output":"'"$work"'/written"}' 'no argument .*output'
call '{"model":"--output='"$work"'/written"}' 'expected no flag'
call '{"model":"-"}' 'expected no flag'
call '{"model":{"zoo":"mlp"}}' 'expected a string or a number'
ask '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}' '"code":-32602'
ask $'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\xff"}}' '"jsonrpc":"2.0"'
[ ! -e "$work/written" ] || { echo "FAIL  a call writes a file"; status=1; }
printf '%s\n' '{"jsonrpc":"2.0","method":"notifications/initialized"}' | "$gpuplan" mcp >"$work/out"
[ ! -s "$work/out" ] || { echo "FAIL  a notification has an answer: $(cat "$work/out")"; status=1; }

cat >"$work/client.py" <<'END'
import asyncio, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def asked(call):
    """The answer with the protocol's own names: the client's attributes are others in other releases."""
    return (await call).model_dump(by_alias=True)

async def main():
    async with stdio_client(StdioServerParameters(command=sys.argv[1], args=["mcp"])) as (read, write):
        async with ClientSession(read, write) as session:
            assert (await asked(session.initialize()))["serverInfo"]["name"] == "gpuplan"
            tools = {tool["name"]: tool for tool in (await asked(session.list_tools()))["tools"]}
            assert set(tools) == {"plan", "fit", "explain", "diff", "check"}, tools
            assert tools["plan"]["inputSchema"]["properties"]["clip-grad-norm"]["type"] == "boolean"
            call = lambda name, **arguments: asked(session.call_tool(name, arguments))
            plan = await call("plan", model="zoo:resnet50", batch=64, opt="adam", gpu="l4")
            assert plan["structuredContent"]["fits"] is True and not plan["isError"], plan
            too_large = await call("plan", model="zoo:resnet50", batch=4096, gpu="l4")
            assert too_large["structuredContent"]["fits"] is False and not too_large["isError"]
            fit = await call("fit", model="zoo:resnet50", on=["l4"], opt="adam")
            assert fit["structuredContent"]["gpus"][0]["largest"]["batch"] > 64
            assert "Conv2d" in (await call("explain", topic="Conv2d"))["content"][0]["text"]
            diff = await call("diff", sides=["zoo:resnet18", "zoo:resnet34"], batch=8)
            assert diff["structuredContent"]["totals"][0]["delta"] > 0

asyncio.run(main())
END
if python3 -m venv "$work/venv" 2>/dev/null && "$work/venv/bin/pip" install --quiet mcp 2>"$work/err"; then
  "$work/venv/bin/python" "$work/client.py" "$gpuplan" || status=1
else
  echo "skip  the reference client: $(tail -n 1 "$work/err")"
fi
exit $status
