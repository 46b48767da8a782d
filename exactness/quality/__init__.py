"""Does an opt-in arithmetic change how well a model predicts a text, and by more than noise?"""
