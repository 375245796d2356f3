//! Interfaces that the registry calls: admission, the handlers of virtual resources, and webhooks.
//!
//! [`Admit`] is implemented by `admission` and by the escalation check of `auth`, [`VirtualResource`] by the reviews of
//! `auth`, [`WebhookClient`] by `apiserver`; the binary passes them to the registry. This crate is below all of them, so
//! that none has to be built before it is known to the others.
//!
//! It has types and traits only: no rule, and nothing that runs.
//!
//! Start reading at [`admit`].

pub mod admit;
pub mod connect;
pub mod reinvocation;

pub mod virtual_resource;

pub mod webhook;

pub use admit::{
    Admit, AdmitAll, AdmitFuture, ConversionFuture, ObjectReader, Operation, OperationOptions,
    RangeAllocation, Review, SideWrite, StoredRange, kind_of,
};
pub use connect::{AdmitConnect, AdmittedConnect, ConnectFuture, ConnectRequest};
pub use reinvocation::{PluginReinvocation, ReinvocationContext};
pub use virtual_resource::{NoVirtualResources, ReviewFuture, ReviewRequest, VirtualResource};
pub use webhook::{
    NoWebhooks, WebhookAddress, WebhookClient, WebhookEndpoint, WebhookError, WebhookFuture, WebhookRequest,
};
