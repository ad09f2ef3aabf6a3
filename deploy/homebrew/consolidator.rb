# A formula for a tap of your own: `brew tap-new YOU/tap`, copy this to its Formula folder, then fill in the address and
# the SHA-256 of a release's source. The dependencies are wheels at the versions that requirements-hashed.txt pins.
class Consolidator < Formula
  desc "Session logs of coding agents become memory, every night"
  homepage "https://github.com/OWNER/consolidator"
  url "https://github.com/OWNER/consolidator/archive/refs/tags/v0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "Apache-2.0"

  depends_on "python@3.13"

  def install
    system "python3.13", "-m", "venv", libexec
    pip = [libexec/"bin/python", "-m", "pip", "install"]
    system(*pip, "--require-hashes", "--only-binary", ":all:", "-r", "requirements-hashed.txt")
    system(*pip, "--no-deps", "--no-build-isolation", "--no-index", ".")
    bin.install_symlink libexec/"bin/consolidator"
  end

  service do
    run [opt_bin/"consolidator", "serve"]
    keep_alive true
    log_path var/"log/consolidator.log"
    error_log_path var/"log/consolidator.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/consolidator --version")
  end
end
