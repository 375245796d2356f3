//! Kubeconfig.
#[derive(Debug)]
pub struct Kubeconfig;
