// gpuplan completion SHELL: a completion script, generated from the program's own option table.
#include <CLI/CLI.hpp>
#include <memory>

#include "tools/answers/explain_topics.h"
#include "tools/commands/commands.h"
#include "tools/options/output_options.h"
#include "tools/options/run_options.h"
#include "tools/options/words.h"
#include "tools/process/read_source.h"

namespace gpuplan {

namespace {

std::string join(const std::vector<std::string>& words, const std::string& between = " ") {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_name().empty(); });
}

// "--opt" and "-b" of an option, with their dashes.
std::vector<std::string> spellings(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

// The values an option takes: the words of a type such as "train|infer", or the names that the data has.
std::vector<std::string> values_of(const CLI::Option& option) {
  if (option.check_lname("gpu")) return gpu_names();
  if (option.check_lname("opt")) return optimizer_names();
  std::vector<std::string> words;
  const std::string type = option.get_type_name();
  if (type.find('|') == std::string::npos || type.find("...") != std::string::npos) return {};
  for (std::size_t from = 0; from <= type.size();) {
    const std::size_t bar = std::min(type.find('|', from), type.size());
    const std::string word = type.substr(from, bar - from);
    const bool stands_for_another = word.back() >= 'A' && word.back() <= 'Z';  // N, GLOB
    if (!stands_for_another) words.push_back(word);
    from = bar + 1;
  }
  return words;
}

// What a subcommand's first word may be, beside files.
std::vector<std::string> positionals_of(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    if (option->get_type_name() == "MODEL")
      for (const std::string& name : zoo_names()) words.push_back("zoo:" + name);
    else if (option->get_type_name() == "TOPIC")
      for (const ExplainTopic& topic : explain_topics()) words.emplace_back(topic.name);
    else
      words = values_of(*option);
  }
  return words;
}

std::string bash(const CLI::App& app) {
  std::string out =
      "# gpuplan completion for bash: source <(gpuplan completion bash)\n"
      "_gpuplan() {\n"
      "  local words= line=${COMP_LINE:0:COMP_POINT} command=${COMP_WORDS[1]}\n"
      // bash splits words at ':' and '=', so COMP_WORDS has no zoo:resnet50, and replaces what stands behind one.
      "  local current=${line##*[[:space:]]} split=\n"
      "  local before=(${line%\"$current\"})\n"
      "  local previous=${before[@]: -1}\n"
      "  case $current in --*=*) previous=${current%%=*} current=${current#*=} ;; esac\n"
      "  case $current in *:*) [[ $COMP_WORDBREAKS != *:* ]] || split=${current%\"${current##*:}\"} ;; esac\n";
  std::vector<std::string> names;
  for (const CLI::App* command : commands_of(app)) names.push_back(command->get_name());
  out += "  case $command in " + join(names, "|") + ") ;; *) command=plan ;; esac\n  case $command:$previous in\n";
  for (const CLI::App* command : commands_of(app))
    for (const CLI::Option* option : command->get_options()) {
      const std::vector<std::string> values = values_of(*option);
      if (option->get_positional() || values.empty()) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : spellings(*option)) patterns.push_back(command->get_name() + ":" + name);
      out += "    " + join(patterns, "|") + ") words='" + join(values) + "' ;;\n";
    }
  out += "  esac\n  if [ -z \"$words\" ]; then\n    case $command in\n";
  for (const CLI::App* command : commands_of(app)) {
    std::vector<std::string> words = positionals_of(*command);
    for (const CLI::Option* option : command->get_options())
      for (const std::string& name : spellings(*option)) words.push_back(name);
    out += "      " + command->get_name() + ") words='" + join(words) + "' ;;\n";
  }
  out += "    esac\n    [ \"$COMP_CWORD\" -gt 1 ] || words=\"" + join(names) +
         " $words\"\n  fi\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "  [ -z \"$split\" ] || COMPREPLY=(\"${COMPREPLY[@]#\"$split\"}\")\n"
         "}\ncomplete -o default -F _gpuplan gpuplan\n";
  return out;
}

// Single quotes of a description end the shell's string.
std::string quoted(std::string text) {
  for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4) text.replace(at, 1, "'\\''");
  return "'" + text + "'";
}

std::string zsh(const CLI::App& app) {
  // zsh runs bash's function through its own bridge, so that there is one table.
  return "#compdef gpuplan\n# gpuplan completion for zsh: gpuplan completion zsh > a folder of $fpath/_gpuplan\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash(app);
}

std::string fish(const CLI::App& app) {
  std::string out = "# gpuplan completion for fish: gpuplan completion fish | source\n";
  std::vector<std::string> names;
  for (const CLI::App* command : commands_of(app)) names.push_back(command->get_name());
  for (const CLI::App* command : commands_of(app)) {
    const std::string& name = command->get_name();
    out +=
        "complete -c gpuplan -n __fish_use_subcommand -a " + name + " -d " + quoted(command->get_description()) + "\n";
    // Without a subcommand the flags are plan's.
    const std::string when =
        name == "plan" ? "not __fish_seen_subcommand_from " + join(names) + "; or __fish_seen_subcommand_from plan"
                       : "__fish_seen_subcommand_from " + name;
    const std::string start = "complete -c gpuplan -n " + quoted(when);
    if (const std::vector<std::string> words = positionals_of(*command); !words.empty())
      out += start + " -a " + quoted(join(words)) + "\n";
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_positional()) continue;
      out += start;
      for (const std::string& s : option->get_snames()) out += " -s " + s;
      for (const std::string& l : option->get_lnames()) out += " -l " + l;
      const std::vector<std::string> values = values_of(*option);
      if (!values.empty()) out += " -x -a " + quoted(join(values));
      out += " -d " + quoted(option->get_description()) + "\n";
    }
  }
  return out;
}

}  // namespace

void add_completion_command(CLI::App& app, int& exit_code) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* const command = app.add_subcommand("completion", "Prints a completion script for your shell");
  command->add_option("shell", *shell, "Which shell")->type_name("bash|zsh|fish");
  command->callback([shell, &app, &exit_code] {
    if (shell->empty()) throw Error("completion expects bash, zsh or fish", ErrorKind::usage);
    const auto script =
        choose<std::string (*)(const CLI::App&)>("completion", *shell, {{"bash", bash}, {"zsh", zsh}, {"fish", fish}});
    write_stdout(script(app));
    exit_code = 0;
  });
}

}  // namespace gpuplan
