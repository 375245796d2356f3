//! Test runner for directories of YAML files: `setpoint kuttl test`. The files are those of
//! [KUTTL](https://github.com/kudobuilder/kuttl), so that its test suites run unchanged.
//!
//! A case is a directory. Its files `NN-name.yaml` form steps: objects that are applied, commands that are run, and the
//! objects that the API must have afterwards (`NN-assert.yaml`) or must not have (`NN-errors.yaml`). The crate never starts
//! a cluster: it uses the one of the kubeconfig.
//!
//! Start reading at [`suite`], then `case`, `step` and `check`. [`ObjectClient`] and [`manifest`] are also used by the
//! commands of KUDO.

#![warn(missing_docs)]

pub mod suite;

mod case;
mod check;
mod expressions;
mod step;
mod step_file;
mod subset;
mod test_file;

pub mod command;
mod config;
mod log;
pub mod manifest;
mod object_client;
mod process;
mod process_groups;
mod report;

pub use object_client::{ObjectClient, gvk_of};
