// One program, several names: its links in libexec are called ssh, mpirun, mpiexec and srun.
#include <exception>
#include <iostream>
#include <string>

#include "tools/soma/launch.h"

int main(int argc, char** argv) {
  const std::string path = argc > 0 ? argv[0] : "";
  const std::string name = path.substr(path.rfind('/') + 1);
  const soma::launch::Words words(argv + (argc > 0 ? 1 : 0), argv + argc);
  constexpr int kUsage = 2;
  try {
    const auto machine = soma::find_enclosing();
    if (!machine) {
      std::cerr << name << ": this stand-in works only in a command of soma run or soma exec\n";
      return kUsage;
    }
    if (name == "ssh") return soma::launch::ssh(*machine, words);
    if (name == "mpirun" || name == "mpiexec") return soma::launch::mpirun(*machine, words);
    if (name == "srun") return soma::launch::srun(*machine, words);
    std::cerr << name << ": call it as ssh, mpirun, mpiexec or srun\n";
  } catch (const std::exception& error) {
    std::cerr << name << ": " << error.what() << "\n";
  }
  return kUsage;
}
