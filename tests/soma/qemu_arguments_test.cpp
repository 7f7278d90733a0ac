#include "tools/soma/qemu_arguments.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace {

using soma::qemu_memory_bytes;

constexpr uint64_t kMiB = 1 << 20;

TEST(QemuArguments, MemorySizes) {
  const auto bytes = [](const std::string& text) {
    const auto result = qemu_memory_bytes(text);
    return result ? *result : 0;
  };
  EXPECT_EQ(bytes("512"), 512 * kMiB);
  EXPECT_EQ(bytes("512M"), 512 * kMiB);
  EXPECT_EQ(bytes("512m"), 512 * kMiB);
  EXPECT_EQ(bytes("1G"), 1024 * kMiB);
  EXPECT_EQ(bytes("size=1G"), 1024 * kMiB);
  EXPECT_EQ(bytes("1.5G"), 1536 * kMiB);
  EXPECT_EQ(bytes("0.25g"), 256 * kMiB);
  EXPECT_EQ(bytes("1048576k"), 1024 * kMiB);
  EXPECT_EQ(bytes("8192b"), 8192u);
  EXPECT_EQ(bytes("8193B"), 16384u);  // QEMU rounds up
  EXPECT_EQ(bytes("2T"), 2048 * 1024 * kMiB);
}

TEST(QemuArguments, WhatIsNoMemorySize) {
  for (const char* bad : {"",
                          "M",
                          "x",
                          "12x",
                          "12MM",
                          "1.G",
                          "1.5.5G",
                          "-5",
                          "+5",
                          " 5",
                          "5 ",
                          "0",
                          "0G",
                          "17T",
                          "16777217G",
                          "99999999999999999999",
                          "1P",
                          "16E",
                          "size=",
                          "1.3b",
                          "512,foo=1",
                          "1G,slots=2",
                          "1G,maxmem=4G",
                          "size=1G,slots=2,maxmem=4G",
                          "0x200"}) {
    const auto result = qemu_memory_bytes(bad);
    ASSERT_FALSE(result.ok()) << bad;
    EXPECT_EQ(result.error().fault, base::Fault::kConfig) << bad;
  }
}

std::vector<std::string> words(const std::vector<std::string>& arguments) {
  const auto command = soma::qemu_command(arguments, 9);
  EXPECT_TRUE(command.ok());
  return command ? command->words : std::vector<std::string>{};
}
bool has(const std::vector<std::string>& all, const std::string& word) {
  return std::find(all.begin(), all.end(), word) != all.end();
}
// The value of the first `option`.
std::string value_of(const std::vector<std::string>& all, const std::string& option) {
  const auto at = std::find(all.begin(), all.end(), option);
  return at == all.end() || at + 1 == all.end() ? "" : *(at + 1);
}

TEST(QemuArguments, WithoutAny) {
  const auto all = words({});
  EXPECT_EQ(all.front(), "qemu-system-x86_64");
  EXPECT_EQ(value_of(all, "-machine"), "memory-backend=neuronmem");
  EXPECT_EQ(value_of(all, "-object"), "memory-backend-memfd,id=neuronmem,size=536870912,share=on");
  EXPECT_EQ(value_of(all, "-device"), "x-pci-proxy-dev,id=neuron0,fd=9");
  EXPECT_EQ(value_of(all, "-accel"), "tcg,thread=single");
  EXPECT_EQ(value_of(all, "-m"), "512M");
}

TEST(QemuArguments, TheUsersComeLastAndStay) {
  const std::vector<std::string> given{"-M",     "pc,usb=off", "-m",      "1G",
                                       "-accel", "kvm",        "-append", "-m"};
  const auto all = words(given);
  EXPECT_TRUE(std::equal(given.rbegin(), given.rend(), all.rbegin()));
  EXPECT_EQ(std::count(all.begin(), all.end(), "-accel"), 1);
  EXPECT_FALSE(has(all, "512M"));
  EXPECT_NE(value_of(all, "-object").find("size=1073741824,"), std::string::npos);
}

TEST(QemuArguments, AcceleratorInEveryForm) {
  for (const std::vector<std::string>& given :
       {std::vector<std::string>{"-machine", "pc,accel=kvm"},
        {"--accel", "tcg,thread=multi"},
        {"-enable-kvm"}}) {
    EXPECT_FALSE(has(words(given), "-accel"));
  }
}

TEST(QemuArguments, SeveralProcessorsTakeTurns) {
  EXPECT_EQ(value_of(words({"-smp", "4"}), "-accel"), "tcg,thread=single");
  EXPECT_EQ(words({"-smp", "2", "-accel", "tcg,thread=single,tb-size=64"}).size(), 13u);
  EXPECT_FALSE(words({"-smp", "1", "-enable-kvm"}).empty());
  for (const std::vector<std::string>& given :
       {std::vector<std::string>{"-smp", "2", "-accel", "tcg"},
        {"-accel", "tcg,thread=multi", "--smp", "cpus=1,maxcpus=2"},
        {"-enable-kvm", "-smp", "sockets=2"},
        {"-M", "pc,accel=kvm", "-smp", "2"},
        {"-accel", "kvm", "-accel", "tcg,thread=single", "-smp", "2"}}) {
    const auto command = soma::qemu_command(given, 3);
    ASSERT_FALSE(command.ok()) << given.front();
    EXPECT_NE(command.error().message().find("thread=single"), std::string::npos);
  }
}

TEST(QemuArguments, MuchMemoryLeavesTheHole) {
  EXPECT_EQ(value_of(words({"-m", "2G"}), "-machine"), "memory-backend=neuronmem");
  EXPECT_EQ(value_of(words({"-m", "2049M"}), "-machine"),
            "memory-backend=neuronmem,max-ram-below-4g=2G");
  EXPECT_EQ(value_of(words({"-m", "4G", "-M", "pc,max-ram-below-4g=1G"}), "-machine"),
            "memory-backend=neuronmem");
}

TEST(QemuArguments, WhatCannotBeCombined) {
  for (const std::vector<std::string>& given :
       {std::vector<std::string>{"-machine", "memory-backend=x"},
        {"--M", "pc,memory-backend=x"},
        {"-mem-path", "/dev/shm/x"},
        {"-daemonize"},
        {"-m", "1G,slots=2"},
        {"-m"},
        {"-machine"}}) {
    const auto command = soma::qemu_command(given, 3);
    ASSERT_FALSE(command.ok()) << given.front();
    EXPECT_EQ(command.error().fault, base::Fault::kConfig);
  }
  // What belongs to another option is none of ours.
  EXPECT_TRUE(soma::qemu_command({"-append", "-machine"}, 3).ok());
  EXPECT_TRUE(soma::qemu_command({"-", "disk.img", ""}, 3).ok());
}

TEST(QemuArguments, WarnsAboutMachinesWithoutRoom) {
  for (const char* machine : {"q35", "type=q35", "pc-q35-7.2,usb=off"}) {
    const auto command = soma::qemu_command({"-machine", machine}, 3);
    ASSERT_TRUE(command.ok());
    EXPECT_FALSE(command->warning.empty()) << machine;
  }
  EXPECT_TRUE(soma::qemu_command({"-machine", "pc"}, 3)->warning.empty());
}

TEST(QemuArguments, Revision) {
  const auto value = [](const std::string& text) {
    const auto revision = soma::pci_revision(text);
    return revision ? int{*revision} : -1;
  };
  EXPECT_EQ(value("silicon"), 0);
  EXPECT_EQ(value("emulator"), 0xF0);
  EXPECT_EQ(value("qemu"), 0xFF);
  EXPECT_EQ(value("0"), 0);
  EXPECT_EQ(value("0xfE"), 0xFE);
  EXPECT_EQ(value("255"), 255);
  for (const char* bad : {"", "256", "-1", "0x", "0x100", "1x", "QEMU", "+1", " 1"}) {
    EXPECT_EQ(value(bad), -1) << bad;
  }
}

}  // namespace
