"""/opt/aws/neuron as programs on machines see it: sdk_directory_test.py BUILD (spec/clients.md 4.1:
who reads it by absolute path)."""
import subprocess
import sys

from bench import EndToEnd, main

SDK = "/opt/aws/neuron"
PROGRAMS = ["nccom-test", "neuron-ls", "neuron-monitor", "neuron-monitor-prometheus.py",
            "neuron-top"]


class Directory(EndToEnd):
    def shell(self, script, *arguments, **environment):
        run = self.run_on(["--platform", "trn1.2xlarge"], ["sh", "-c", script, *arguments],
                          **environment)
        self.assert_ok(run)
        return run.output

    def python(self, script):
        return self.shell('"$0" -c "$1"', sys.executable, script)

    def compile(self, source, *options):
        """A program or library on the host, where the directory is none of ours."""
        name = self.directory / f"compiled{len(options)}{abs(hash(source)) % 10 ** 6}"
        name.with_suffix(".c").write_text(source)
        subprocess.run(["cc", "-o", name, name.with_suffix(".c"), *options], check=True)
        return str(name)

    def test_what_it_holds(self):
        text = self.shell(f"ls {SDK}; ls {SDK}/bin; ls {SDK}/lib/; ls {SDK}/include/nrt/nrt.h")
        self.assertEqual(text.split(), ["bin", "include", "lib", *PROGRAMS, "libnrt.so",
                                        "libnrt.so.1", f"{SDK}/include/nrt/nrt.h"])

    def test_programs_start_by_their_names(self):
        listed = self.shell(f"{SDK}/bin/neuron-ls --json-output")
        self.assertIn('"neuron_device": 0', listed)
        # C20.1, C19.1, C15.1: an interpreter's ways to start programs and to look for them.
        text = self.python(f"""
import glob, os, shutil, subprocess
bin = "{SDK}/bin/"
assert os.path.isdir(bin) and os.access(bin + "neuron-ls", os.X_OK)
assert sorted(os.listdir(bin)) == [entry.name for entry in sorted(os.scandir(bin), key=str)]
assert shutil.which(bin + "neuron-monitor")
assert glob.glob(bin + "neuron-l*") == [bin + "neuron-ls"]
for run in (subprocess.run([bin + "neuron-ls", "-j"], stdout=subprocess.PIPE),
            subprocess.run(bin + "neuron-ls -j", shell=True, stdout=subprocess.PIPE)):
    assert run.returncode == 0 and b"nc_count" in run.stdout
pid = os.posix_spawn(bin + "neuron-ls", ["neuron-ls", "--version"], os.environ)
assert os.waitpid(pid, 0)[1] == 0
os.execv(bin + "neuron-ls", ["neuron-ls", "-t"])
""")
        self.assertIn("Neuron Device Topology", text)

    def test_every_way_to_start_a_program(self):
        program = self.compile(STARTS)
        for way in range(9):
            with self.subTest(way=way):
                self.assertRegex(self.shell('"$0" "$1"', program, str(way)),
                                 r"^start\n\d+\.\d+.*\n$")

    def test_the_library_loads_by_its_name(self):
        # C03, C04.2: by the absolute name, then whoever asks for the SONAME gets the same.
        self.python(f"""
import ctypes, os
first = ctypes.CDLL("{SDK}/lib/libnrt.so.1")
again = ctypes.CDLL("libnrt.so.1", mode=os.RTLD_NOLOAD)
assert first._handle == again._handle
assert os.path.isfile("{SDK}/lib/libnrt.so.1")
assert first.nrt_init(1, b"", b"") == 0
first.nrt_close()
""")

    def test_programs_are_compiled_against_it(self):
        source = self.directory / "user.c"
        source.write_text(USER)
        self.assertEqual(self.shell(f"cc -I{SDK}/include {source} -L{SDK}/lib -lnrt -o user && "
                                    "./user"), "2 cores\n")

    def test_others_search_libraries_as_before(self):
        (self.directory / "near").mkdir()
        part = self.compile("int near_value(void) { return 5; }", "-shared", "-fPIC")
        (self.directory / "near" / "libnear.so").symlink_to(part)
        program = self.compile(LOADS, "-Wl,-rpath,$ORIGIN/near,--enable-new-dtags", "-ldl")
        self.assertEqual(self.shell('"$0"', program), "5\n")

    def test_nothing_in_it_changes(self):
        self.python(f"""
import os
name = "{SDK}/bin/neuron-ls"
assert not os.access(name, os.W_OK)
for attempt in (lambda: open(name, "w"), lambda: open("{SDK}/lib/new", "x"),
                lambda: os.unlink(name), lambda: os.mkdir("{SDK}/lib/new"),
                lambda: os.rename(name, name + "2"), lambda: os.symlink("a", "{SDK}/lib/a")):
    try:
        attempt()
    except PermissionError:
        continue
    raise SystemExit("it can be changed")
""")
        self.assertTrue(self.shell(f"{SDK}/bin/neuron-ls --version"))

    def test_other_names_are_the_hosts(self):
        names = ("/opt/aws/neuronx", SDK + "/logical_nc_config", SDK + "/binary", "/opt/aws")
        for name in names:
            host = subprocess.run(["stat", name], capture_output=True).returncode
            run = self.run_on([], ["stat", name])
            self.assertEqual(run.status, host, name)


# Starts a program in one of the ways that C has, chosen by its argument.
STARTS = """
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
extern char** environ;
int main(int argc, char** argv) {
  const char* path = "/opt/aws/neuron/bin/neuron-ls";
  char* arguments[] = {"neuron-ls", "--version", NULL};
  pid_t child = 0;
  puts("start");
  fflush(stdout);
  switch (atoi(argv[1])) {
    case 0: execv(path, arguments); break;
    case 1: execve(path, arguments, environ); break;
    case 2: execvp(path, arguments); break;
    case 3: execvpe(path, arguments, environ); break;
    case 4: execl(path, "neuron-ls", "--version", (char*)NULL); break;
    case 5: execlp(path, "neuron-ls", "--version", (char*)NULL); break;
    case 6: execle(path, "neuron-ls", "--version", (char*)NULL, environ); break;
    case 7: posix_spawn(&child, path, NULL, NULL, arguments, environ); break;
    default: posix_spawnp(&child, path, NULL, NULL, arguments, environ); break;
  }
  return child > 0 && waitpid(child, NULL, 0) == child ? 0 : 1;
}
"""
USER = """
#include <nrt/nrt.h>
#include <stdio.h>
int main(void) {
  unsigned count = 0;
  if (nrt_get_total_nc_count(&count) != NRT_SUCCESS) return 1;
  printf("%u cores\\n", count);
  return 0;
}
"""
LOADS = """
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
  void* library = dlopen("libnear.so", RTLD_NOW);
  int (*value)(void) = library == NULL ? NULL : (int (*)(void))dlsym(library, "near_value");
  if (value == NULL) return puts(dlerror()), 1;
  printf("%d\\n", value());
  return 0;
}
"""

if __name__ == "__main__":
    main(sys.argv)
