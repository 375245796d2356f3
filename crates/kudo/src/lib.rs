//! Operators in YAML: the packages, the plan engine and the commands of [KUDO](https://github.com/kudobuilder/kudo).
//!
//! A package has templates, parameters and plans. Installed, it is an Operator, an OperatorVersion and an Instance; the
//! engine runs the plans of Instances: phases of steps of tasks, which apply and delete rendered objects.
//!
//! ```text
//! package -> OperatorVersion -> admission (which plan) -> engine (which step) -> task (which objects)
//! ```
//!
//! All state of a plan is in the status of its Instance, and is written after every step, so that a step that is done is
//! never repeated. The engine knows no server but through `client`; it runs against any Kubernetes.
//!
//! Start reading at [`engine`], then `task`, [`admission`] and [`package`].

#![warn(missing_docs)]

pub mod engine;

mod task;

pub mod admission;
pub mod api;
pub mod command;
pub mod crds;
pub mod installation;
pub mod package;
pub mod parameters;
pub mod render;

mod dependencies;
mod dependency_hash;
mod enhance;
mod health;
mod md5;
mod merge;
