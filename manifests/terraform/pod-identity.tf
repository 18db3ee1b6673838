# Gives the role to the ServiceAccount. With IRSA its annotation eks.amazonaws.com/role-arn does that, and this is left out.
resource "aws_eks_pod_identity_association" "pods" {
  cluster_name    = "EKS-CLUSTER"
  namespace       = local.namespace
  service_account = local.service_account
  role_arn        = aws_iam_role.pods.arn
}
