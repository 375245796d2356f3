//! The `storage.k8s.io` group: where volumes come from and where they are attached.

use std::sync::Arc;

use crate::builtin::Builtin;
use crate::kind::Kind;

pub mod csi_driver;
pub mod csi_node;
pub mod csi_storage_capacity;
pub mod storage_class;
pub mod volume_attachment;
pub mod volume_attributes_class;

mod driver;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(Builtin::<csi_driver::CsiDriver>::new()),
        Arc::new(Builtin::<csi_node::CsiNode>::new()),
        Arc::new(Builtin::<csi_storage_capacity::CsiStorageCapacity>::new()),
        Arc::new(Builtin::<storage_class::StorageClass>::new()),
        Arc::new(Builtin::<volume_attachment::VolumeAttachment>::new()),
        Arc::new(Builtin::<volume_attributes_class::VolumeAttributesClass>::new()),
    ]
}
