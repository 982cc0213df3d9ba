#include "tools/train/running/train_signals.h"

#include <csignal>

namespace sluice {
namespace {

TrainSignals signals;

void OnStop(int signal) {
  if (signal == SIGTERM) signals.terminated.store(true);
  if (signal != SIGTERM || !signals.leaves_alone.load()) signals.interrupted.store(true);
  if (signal != SIGTERM || !signals.under_mpi.load()) std::signal(signal, SIG_DFL);
}

void Catch(int signal) {
  if (std::signal(signal, OnStop) == SIG_IGN) std::signal(signal, SIG_IGN);
}

}  // namespace

TrainSignals& Signals() { return signals; }

void CatchSignals() {
  Catch(SIGINT);
  Catch(SIGTERM);
  Catch(SIGHUP);  // the terminal or the connection is lost
  // Writing where nobody reads is then an error.
  std::signal(SIGPIPE, SIG_IGN);
}

void CatchTermination() { std::signal(SIGTERM, OnStop); }

}  // namespace sluice
