#include <doctest/doctest.h>

#include <map>

#include "estimator/base/error.h"
#include "estimator/spec/read.h"
#include "tests/support/git_repository.h"
#include "tools/git/base.h"
#include "tools/git/commit.h"
#include "tools/git/commit_files.h"
#include "tools/git/repository.h"
#include "tools/options/commit_model.h"

using namespace gpuplan;
using gpuplan::tests::GitRepository;

namespace fs = std::filesystem;

namespace {

git::Environment with(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  };
}

// The error of a call, or nothing.
template <class F>
std::optional<Error> error_of(F&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

bool says(const std::optional<Error>& error, const std::string& words) {
  return error && error->render().find(words) != std::string::npos;
}

// main has A - B; a branch from A has C; HEAD is their merge as CI systems make it, main first.
struct MergedPullRequest {
  GitRepository repository;
  std::string a, b, c, merge;

  MergedPullRequest() {
    repository.write("m.yaml", "a");
    a = repository.commit("a");
    repository.git({"checkout", "--quiet", "-b", "topic"});
    repository.write("m.yaml", "c");
    c = repository.commit("c");
    repository.git({"checkout", "--quiet", "main"});
    repository.write("other", "b");
    b = repository.commit("b");
    repository.git({"checkout", "--quiet", "--detach"});
    repository.git({"merge", "--quiet", "--no-ff", "-m", "merge", "topic"});
    merge = repository.git({"rev-parse", "HEAD"});
  }
};

}  // namespace

TEST_CASE("a file's repository, and its name there") {
  NEEDS_GIT();
  const GitRepository repository;
  repository.write("configs/m.yaml", "a");
  CHECK_EQ(git::repository_of(repository.top() / "configs" / "m.yaml"), repository.top());
  CHECK_EQ(git::repository_of(repository.top() / "gone" / "with" / "all"), repository.top());
  CHECK_EQ(git::repository_of(repository.top()), repository.top());
  CHECK_FALSE(git::repository_of(repository.top().parent_path()).has_value());
  CHECK_FALSE(git::repository_of(repository.top() / ".git").has_value());
  CHECK_EQ(git::path_in_repository(repository.top(), repository.top() / "configs" / ".." / "configs" / "m.yaml"),
           "configs/m.yaml");
  CHECK_EQ(git::path_in_repository(repository.top(), repository.top() / "gone.yaml"), "gone.yaml");
  fs::create_directory_symlink(repository.top() / "configs", repository.top() / "link");
  CHECK_EQ(git::path_in_repository(repository.top(), repository.top() / "link" / "m.yaml"), "configs/m.yaml");
  for (const fs::path& path : {fs::path("/etc/passwd"), repository.top() / ".." / "m.yaml"})
    CHECK(says(error_of([&] { git::path_in_repository(repository.top(), path); }), "is outside the repository"));
}

TEST_CASE("variables that name another repository do not lead git there") {
  NEEDS_GIT();
  const GitRepository repository, other;
  const std::string commit = repository.commit("a");
  other.write("x", "x");
  other.commit("b");
  ::setenv("GIT_DIR", (other.top() / ".git").c_str(), 1);
  ::setenv("GIT_WORK_TREE", other.top().c_str(), 1);
  CHECK_EQ(git::repository_of(repository.top()), repository.top());
  CHECK_EQ(git::head_commit(repository.top()), commit);
  ::unsetenv("GIT_DIR");
  ::unsetenv("GIT_WORK_TREE");
}

TEST_CASE("without git there is an error of the environment that says so") {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nonexistent", 1);
  const std::optional<Error> error = error_of([] { git::repository_of("."); });
  ::setenv("PATH", path.c_str(), 1);
  CHECK(says(error, "git is not installed"));
  CHECK(error->kind() == ErrorKind::environment);
}

TEST_CASE("a commit is found by any name, and never taken for an option") {
  NEEDS_GIT();
  const GitRepository repository;
  const std::optional<Error> unborn = error_of([&] { git::head_commit(repository.top()); });
  CHECK(says(unborn, "nothing has been committed"));
  CHECK(unborn->kind() == ErrorKind::environment);
  const std::string first = repository.commit("first");
  repository.git({"tag", "-m", "one", "v1"});  // annotated: an object of its own
  const std::string second = repository.commit("second");
  for (const std::string& name :
       {first, first.substr(0, 10), std::string("HEAD~1"), std::string("v1"), std::string("main^")})
    CHECK_EQ(git::require_commit(repository.top(), name), first);
  CHECK_EQ(git::find_base(repository.top(), "main", with({})).commit, second);
  CHECK_EQ(git::find_base(repository.top(), "main", with({})).rule, "the commit named");
  for (const char* name : {"", "-h", "--all", "--output=x", "a\nb"}) {
    const std::optional<Error> error = error_of([&] { git::require_commit(repository.top(), name); });
    REQUIRE(error);
    CHECK(error->kind() == ErrorKind::usage);
  }
  CHECK(says(error_of([&] { git::require_commit(repository.top(), "mian"); }), "did you mean \"main\"?"));
  for (const char* name : {"main:m.yaml", "main..v1", ":/first...", "$(id)", "HEAD^{tree}"})
    CHECK(error_of([&] { git::require_commit(repository.top(), name); }));
}

TEST_CASE("the base of a pull request's merge is its first parent") {
  NEEDS_GIT();
  const MergedPullRequest pr;
  const fs::path& top = pr.repository.top();
  const std::map<std::string, std::string> merges[] = {
      {{"GITHUB_REF", "refs/pull/12/merge"}, {"GITHUB_SHA", pr.merge}, {"GITHUB_BASE_REF", "main"}},
      {{"GITHUB_REF", "refs/pull/12/merge"}},
      {{"CI_MERGE_REQUEST_EVENT_TYPE", "merged_result"}, {"CI_COMMIT_SHA", pr.merge}},
      {{"CI_MERGE_REQUEST_EVENT_TYPE", "merge_train"}},
      {{"BUILD_SOURCEBRANCH", "refs/pull/12/merge"}}};
  for (const auto& variables : merges) {
    const git::Base base = git::find_base(top, "auto", with(variables));
    CHECK_EQ(base.commit, pr.b);
    CHECK_EQ(base.rule, "first parent of the pull-request merge");
  }
  // Another commit than the CI system's merge is checked out, or none of its: what main has got is not the change's.
  const std::map<std::string, std::string> others[] = {{},
                                                       {{"GITHUB_REF", "refs/heads/main"}},
                                                       {{"GITHUB_REF", "refs/pull/x/merge"}},
                                                       {{"GITHUB_REF", "refs/pull//merge"}},
                                                       {{"GITHUB_REF", "refs/pull/12/merge"}, {"GITHUB_SHA", pr.c}},
                                                       {{"CI_MERGE_REQUEST_EVENT_TYPE", "detached"}}};
  for (const auto& variables : others) {
    const git::Base base = git::find_base(top, "auto", with(variables));
    CHECK_EQ(base.commit, pr.b);  // an ancestor of the merge
    CHECK_EQ(base.rule, "merge base of main");
  }
  pr.repository.git({"checkout", "--quiet", "topic"});
  CHECK_EQ(git::find_base(top, "auto", with({{"GITHUB_REF", "refs/pull/12/merge"}})).commit, pr.a);  // no merge
}

TEST_CASE("the base elsewhere is the merge base of the branch that the change goes to") {
  NEEDS_GIT();
  const MergedPullRequest pr;
  pr.repository.git({"branch", "release", pr.a});
  pr.repository.git({"checkout", "--quiet", "main"});
  const GitRepository clone(pr.repository, {});
  clone.git({"checkout", "--quiet", "topic"});
  const git::Base by_head = git::find_base(clone.top(), "auto", with({}));
  CHECK_EQ(by_head.commit, pr.a);
  CHECK_EQ(by_head.rule, "merge base of origin/main");
  const git::Base by_target = git::find_base(clone.top(), "auto", with({{"GITHUB_BASE_REF", "release"}}));
  CHECK_EQ(by_target.rule, "merge base of origin/release");
  const std::optional<Error> missing = error_of([&] {
    git::find_base(clone.top(), "auto", with({{"GITHUB_BASE_REF", "gone"}}));
  });
  CHECK(says(missing, "it lacks origin/gone, where the pull request goes"));
  CHECK(missing->kind() == ErrorKind::environment);
  const std::map<std::string, std::string> gitlab = {{"CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "gone"},
                                                     {"CI_MERGE_REQUEST_DIFF_BASE_SHA", pr.a}};
  CHECK_EQ(git::find_base(clone.top(), "auto", with(gitlab)).rule, "CI_MERGE_REQUEST_DIFF_BASE_SHA");
  clone.git({"symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/release"});
  CHECK_EQ(git::find_base(clone.top(), "auto", with({})).rule, "merge base of origin/release");
  CHECK_EQ(git::merge_base_with(clone.top(), "origin/main").commit, pr.a);

  clone.git({"checkout", "--quiet", "--orphan", "root"});
  clone.commit("unrelated");
  CHECK(says(error_of([&] { git::find_base(clone.top(), "auto", with({})); }), "have no commit in common"));
}

TEST_CASE("a shallow clone without the base is an error that says what to fetch") {
  NEEDS_GIT();
  const MergedPullRequest pr;
  pr.repository.git({"checkout", "--quiet", "-b", "merged"});
  const git::Environment github = with({{"GITHUB_REF", "refs/pull/12/merge"}});
  const GitRepository one(pr.repository, {"--depth=1", "--branch=merged"});
  const std::optional<Error> error = error_of([&] { git::find_base(one.top(), "auto", github); });
  CHECK(says(error, "fetch-depth: 2"));
  CHECK(error->kind() == ErrorKind::environment);
  const GitRepository two(pr.repository, {"--depth=2", "--branch=merged"});
  CHECK_EQ(git::find_base(two.top(), "auto", github).commit, pr.b);

  const GitRepository topic(pr.repository, {"--depth=1", "--branch=topic"});
  // As git leaves it where origin's own HEAD is on that branch or on none: with it as the base nothing would differ.
  topic.git({"symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/topic"});
  const std::optional<Error> no_branch = error_of([&] { git::find_base(topic.top(), "auto", with({})); });
  CHECK(says(no_branch, "fetch-depth: 0"));
  CHECK(no_branch->kind() == ErrorKind::environment);
  const GitRepository cut(pr.repository, {"--depth=1", "--branch=topic", "--no-single-branch"});
  const std::optional<Error> no_base = error_of([&] { git::find_base(cut.top(), "auto", with({})); });
  CHECK(says(no_base, "no commit in common"));
  CHECK(says(no_base, "git fetch --unshallow"));
  const std::optional<Error> named = error_of([&] { git::find_base(cut.top(), pr.a, with({})); });
  CHECK(says(named, "which is a shallow clone"));
  CHECK(named->kind() == ErrorKind::environment);
}

TEST_CASE("files of a commit, through links, and never from outside of it") {
  NEEDS_GIT();
  const GitRepository repository;
  repository.write("configs/m.yaml", "first");
  repository.write("configs/new\nline.yaml", "odd");
  repository.write("configs/-x", "option");
  fs::create_symlink("m.yaml", repository.top() / "configs" / "link.yaml");
  fs::create_directory_symlink("configs", repository.top() / "folder");
  fs::create_symlink("../folder/link.yaml", repository.top() / "configs" / "twice.yaml");
  fs::create_symlink("loop.yaml", repository.top() / "loop.yaml");
  fs::create_symlink("/etc/passwd", repository.top() / "absolute.yaml");
  fs::create_symlink("../../etc/passwd", repository.top() / "configs" / "out.yaml");
  const std::string commit = repository.commit("first");
  repository.write("configs/m.yaml", "second");
  git::Objects objects(repository.top());
  for (const char* path : {"configs/m.yaml", "configs/link.yaml", "folder/m.yaml", "configs/twice.yaml",
                           "configs/../configs/./m.yaml", "folder/../configs/m.yaml"})
    CHECK_EQ(objects.file_at(commit, path), "first");
  CHECK_EQ(objects.file_at(commit, "configs/new\nline.yaml"), "odd");
  CHECK_EQ(objects.file_at(commit, "configs/-x"), "option");
  for (const char* path : {"", ".", "configs", "gone.yaml", "gone/m.yaml", "configs/m.yaml/x", "configs/m.yamlx"})
    CHECK_FALSE(objects.file_at(commit, path).has_value());
  CHECK(says(error_of([&] { objects.file_at(commit, "loop.yaml"); }), "leads back to itself"));
  for (const char* path : {"absolute.yaml", "configs/out.yaml", "../m.yaml", "/etc/passwd", "configs/../../m.yaml"})
    CHECK(says(error_of([&] { objects.file_at(commit, path); }), "leads out of the repository"));
  CHECK_EQ(objects.file_at(commit, "configs/m.yaml"), "first");  // git still answers
}

TEST_CASE("a file too large for a text goes to a file or is refused, and the next one is still read") {
  NEEDS_GIT();
  const GitRepository repository;
  repository.write("large.yaml", std::string((4U << 20) + 1, '#'));
  repository.write("m.yaml", "small");
  const std::string commit = repository.commit("a");
  git::Objects objects(repository.top());
  std::shared_ptr<git::Spool> all;
  const std::string start = *objects.file_at(commit, "large.yaml", &all);
  REQUIRE(all);
  CHECK_EQ(start.size(), std::size_t{4} << 20);
  CHECK_EQ(std::filesystem::file_size(all->path()), std::filesystem::file_size(repository.top() / "large.yaml"));
  CHECK(says(error_of([&] { objects.file_at(commit, "large.yaml"); }), commit.substr(0, 7) + ":large.yaml"));
  CHECK_EQ(objects.file_at(commit, "m.yaml"), "small");
  CHECK(error_of([&] { objects.file_at(std::string(40, '0'), "m.yaml"); })->kind() == ErrorKind::environment);
}

TEST_CASE("many files are read by one process") {
  NEEDS_GIT();
  const GitRepository repository;
  const auto name = [](int i) { return "configs/" + std::to_string(i) + ".yaml"; };
  for (int i = 0; i < 1000; ++i) repository.write(name(i), std::string(static_cast<std::size_t>(i), 'x'));
  const std::string commit = repository.commit("many");
  git::Objects objects(repository.top());
  for (int i = 0; i < 1000; ++i) CHECK_EQ(objects.file_at(commit, name(i))->size(), i);
}

TEST_CASE("a renamed file is found under the name that it had") {
  NEEDS_GIT();
  const GitRepository repository;
  std::string text = "gpuplan: 1\n";
  for (int i = 0; i < 30; ++i) text += "# line " + std::to_string(i) + "\n";
  repository.write("old.yaml", text);
  repository.write("kept.yaml", "kept");
  const std::string base = repository.commit("base");
  repository.git({"mv", "old.yaml", "new name.yaml"});
  repository.write("new name.yaml", text + "# one more\n");
  repository.write("added.yaml", "added");
  git::CommitFiles files(repository.top(), base);
  CHECK_EQ(files.find("new name.yaml")->path, "old.yaml");
  CHECK_EQ(files.find("new name.yaml")->source->name, base.substr(0, 7) + ":old.yaml");
  CHECK_EQ(files.find("kept.yaml")->path, "kept.yaml");
  CHECK_FALSE(files.find("added.yaml").has_value());
  const std::string after = repository.commit("after");
  git::CommitFiles of_commit(repository.top(), base, after);
  CHECK_EQ(of_commit.find("new name.yaml")->path, "old.yaml");
  CHECK(git::renames_since(repository.top(), after).empty());
}

TEST_CASE("a model of a commit extends the files of that commit") {
  NEEDS_GIT();
  const GitRepository repository;
  repository.write("base.yaml",
                   "gpuplan: 1\nvars: {n: 4}\ninput: {shape: [8]}\nlayers:\n  - fc: Linear(8, $n)\nloss: mean\n");
  repository.write("models/m.yaml", "gpuplan: 1\nextends: ../base.yaml\nname: m\n");
  repository.write("models/zoo.yaml", "gpuplan: 1\nextends: zoo:lenet\nname: z\n");
  repository.write("models/lost.yaml", "gpuplan: 1\nextends: gone.yaml\n");
  const std::string base = repository.commit("base");
  repository.write("base.yaml", "not a model");
  git::CommitFiles files(repository.top(), base);
  const auto load = [&](const char* path, const RunOptions& options) {
    const WrittenModel written = open_model_at(files, *files.find(path), options);
    return read_model(written.source, written.options);
  };
  const Model model = load("models/m.yaml", {});
  CHECK_EQ(model.name, "m");
  CHECK_EQ(model.vars[0].value, 4);
  CHECK_EQ(model.sources[1]->name, base.substr(0, 7) + ":models/../base.yaml");
  RunOptions options;
  options.set = {"n=6"};
  CHECK_EQ(load("models/m.yaml", options).vars[0].value, 6);
  CHECK_EQ(load("models/zoo.yaml", {}).name, "z");
  const std::string place = base.substr(0, 7) + ":models/lost.yaml:2:";
  CHECK(says(error_of([&] { load("models/lost.yaml", {}); }), place));
}
