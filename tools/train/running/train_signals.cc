#include "tools/train/running/train_signals.h"

#include <csignal>

namespace sluice {
namespace {

TrainSignals signals;

void OnStop(int signal) {
  const bool term = signal == SIGTERM;
  if (term) signals.terminated.store(true);
  if (!term || !signals.leaves_alone.load()) signals.interrupted.store(true);
  // mpirun sends it several times; so does Linux where the parent ends (PR_SET_PDEATHSIG): once for
  // each of its threads.
  const bool again = term && (signals.under_mpi.load() || signals.leaves_alone.load());
  if (!again) std::signal(signal, SIG_DFL);
}

void Handle(int signal) {
  struct sigaction action = {};
  action.sa_handler = OnStop;
  action.sa_flags = SA_RESTART | SA_ONSTACK;  // kernel_threads.h
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

void Catch(int signal) {
  struct sigaction before = {};
  sigaction(signal, nullptr, &before);
  if (before.sa_handler != SIG_IGN) Handle(signal);
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

void CatchTermination() { Handle(SIGTERM); }

}  // namespace sluice
